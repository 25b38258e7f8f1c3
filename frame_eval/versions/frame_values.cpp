#include "frame_eval/versions/frame_values.h"

#if PY_VERSION_HEX >= 0x030e0000

#include <algorithm>
#include <cstdint>
#include <vector>

#include "frame_eval/bytecode/decode.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/last_instructions.h"

namespace framefuse::frame_ops {
namespace {

using Word [[gnu::may_alias]] = std::uintptr_t;

Word* Words(Frame* frame) { return reinterpret_cast<Word*>(frame->localsplus); }
_PyStackRef Reference(std::uintptr_t bits) {
  _PyStackRef reference;
  reference.bits = bits;
  return reference;
}

// The count is kept below the values: whoever walks from them up to the stack pointer sees none.
bool IsPlain(const Frame* frame) { return frame->stackpointer == nullptr || frame->stackpointer < frame->localsplus; }
void SetPlainCount(Frame* frame, int count) { frame->stackpointer = frame->localsplus - 1 - count; }

std::uintptr_t PlainInteger(std::intptr_t value) {
  PyObject* integer = PyLong_FromSsize_t(value);
  if (integer == nullptr) PyErr_Clear();  // out of memory: the traceback will show another line
  return reinterpret_cast<std::uintptr_t>(integer != nullptr ? integer : PyLong_FromLong(0));
}

std::uintptr_t Plain(std::uintptr_t bits) {
  const _PyStackRef reference = Reference(bits);
  if (PyStackRef_IsNull(reference)) return 0;
  if (PyStackRef_IsTaggedInt(reference)) return PlainInteger(PyStackRef_UntagInt(reference));
  return reinterpret_cast<std::uintptr_t>(PyStackRef_AsPyObjectSteal(reference));
}

std::uintptr_t Tagged(std::uintptr_t plain) {
  if (plain == 0) return PyStackRef_NULL.bits;
  if ((plain & Py_TAG_BITS) != 0) return plain;  // written through f_locals while the frame was plain
  return PyStackRef_FromPyObjectSteal(reinterpret_cast<PyObject*>(plain)).bits;
}

void MakePlain(Frame* frame) {
  const int count = ValueCount(frame);
  Word* words = Words(frame);
  for (int i = 0; i < count; ++i) words[i] = Plain(words[i]);
  SetPlainCount(frame, count);
}

void MakeTagged(Frame* frame, const std::vector<int>& last_instructions) {
  const int count = ValueCount(frame);
  Word* words = Words(frame);
  for (const int place : last_instructions) {
    auto* integer = reinterpret_cast<PyObject*>(words[place]);
    words[place] = PyStackRef_TagInt(PyLong_AsLong(integer)).bits;
    Py_DECREF(integer);
  }
  for (int i = 0; i < count; ++i) words[i] = Tagged(words[i]);
  frame->stackpointer = frame->localsplus + count;
}

// Places of the instruction numbers that CPython expects on the stack as tagged integers.
std::vector<int> PlacesOfLastInstructions(Frame* frame) {
  const int slots = SlotCount(Code(frame));
  const int count = ValueCount(frame);
  std::vector<int> places;
  for (int i = slots; i < count; ++i) {
    auto* object = reinterpret_cast<PyObject*>(Words(frame)[i]);
    if (object != nullptr && PyLong_CheckExact(object)) places.push_back(i);
  }
  if (places.empty()) return places;
  const std::vector<int> depths = LastInstructionDepths(Code(frame), NextInstruction(frame));
  const auto is_other = [&](int i) { return std::find(depths.begin(), depths.end(), i - slots) == depths.end(); };
  places.erase(std::remove_if(places.begin(), places.end(), is_other), places.end());
  return places;
}

}  // namespace

PyObject** Values(Frame* frame) {
  if (!IsPlain(frame)) MakePlain(frame);
  return reinterpret_cast<PyObject**>(frame->localsplus);
}

int ValueCount(const Frame* frame) {
  return static_cast<int>(IsPlain(frame) ? frame->localsplus - 1 - frame->stackpointer
                                         : frame->stackpointer - frame->localsplus);
}

void SetValueCount(Frame* frame, int count) {
  if (IsPlain(frame)) {
    SetPlainCount(frame, count);
  } else {
    frame->stackpointer = frame->localsplus + count;
  }
}

void HideValues(Frame* frame) {
  Values(frame);
  frame->stackpointer = nullptr;
}

void DropTags(Frame* frame) {
  Word* words = Words(frame);
  const int slots = SlotCount(Code(frame));
  for (int i = 0; i < slots; ++i) words[i] &= ~std::uintptr_t{Py_TAG_REFCNT};
}

void GiveBack(Frame* frame) {
  if (IsPlain(frame)) MakeTagged(frame, PlacesOfLastInstructions(frame));
}

void GiveBackToDie(Frame* frame) {
  if (IsPlain(frame)) MakeTagged(frame, {});
}

}  // namespace framefuse::frame_ops

#endif
