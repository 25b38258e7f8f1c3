#include "symbolic/calls/generator_calls.h"

#include <opcode.h>

#include <string_view>

#include "frame_eval/import_module.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/size_operations.h"

namespace framefuse {
namespace {

BorrowedRef Named(const char* module, const char* name) {
  const Ref of = ImportModule(module);
  return of ? PyObject_GetAttrString(of, name) : nullptr;  // for ever
}

enum class Sums : std::uint8_t { kNo, kSum, kOther };

Sums WhichOf(BorrowedRef callable) {
  static const BorrowedRef sum = Named("builtins", "sum"), max = Named("builtins", "max"),
                           min = Named("builtins", "min"), product = Named("math", "prod");
  if (callable == sum) return Sums::kSum;
  return callable == max || callable == min || callable == product ? Sums::kOther : Sums::kNo;
}

// Adding it up neither fails nor runs code.
bool IsPlainNumber(BorrowedRef object) {
  constexpr std::size_t kBits = 62;
  return PyFloat_CheckExact(object.get()) ||
         (PyLong_CheckExact(object.get()) && private_api::BitCount(object) <= kBits);
}

// Some versions of Python add up the errors of a sum of floats, too: of two there are none.
bool IsPlainSum(BorrowedRef items, BorrowedRef start) {
  Py_ssize_t floats = start && PyFloat_CheckExact(start.get()) ? 1 : 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    floats += PyFloat_CheckExact(PyTuple_GET_ITEM(items.get(), i)) ? 1 : 0;
  }
  return floats <= 2;
}

std::optional<Value> SumOf(SizeOperations& sizes, BorrowedRef items, BorrowedRef start) {
  if (!IsPlainSum(items, start)) return std::nullopt;
  Ref sum = start ? Ref::Create(start) : Ref::Steal(PyLong_FromLong(0));
  bool symbolic = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    const ValueView both[] = {ValueView(sum, kNoSource), ValueView(PyTuple_GET_ITEM(items.get(), i), kNoSource)};
    symbolic = symbolic || sizes.Holds(both[0].object) || sizes.Holds(both[1].object);
    std::optional<Value> added = sizes.Binary(NB_ADD, both[0], both[1]);
    if (!added && (sizes.Holds(both[0].object) || sizes.Holds(both[1].object))) return std::nullopt;
    sum = added ? std::move(added->object) : Ref::Steal(PyNumber_Add(both[0].object, both[1].object));
    if (!sum) return Value();
  }
  return symbolic ? std::optional(Value{std::move(sum), kNoSource}) : std::nullopt;
}

}  // namespace

std::optional<Value> GeneratorCalls::Call(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                          BorrowedRef kwnames) {
  if (kwnames || args.empty() || args.size() > 2 || !PyGen_CheckExact(args[0].object.get())) return std::nullopt;
  const Sums which = WhichOf(callable.object);
  const bool known = which == Sums::kSum || (which == Sums::kOther && args.size() == 1);
  if (!known || objects.Find(args[0].object) != nullptr) return std::nullopt;
  if (args.size() == 2 && !IsPlainNumber(args[1].object)) return std::nullopt;
  for (const ValueView& start : args.subspan(1)) reads.Move(start);
  const BorrowedRef generator = args[0].object;
  const Ref list = Ref::Steal(PyList_New(0));
  bool plain = true;
  while (plain) {
    const Ref item =
        Ref::Steal(boundary.Run([&] { return generator.type()->tp_iternext(generator.get()); }, generator));
    if (!boundary.Check()) return Value();
    if (!item && PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_StopIteration) == 0) return Value();
    PyErr_Clear();
    if (!item) break;
    plain = IsPlainNumber(item);
    if (PyList_Append(list, item) < 0) return Value();
  }
  Ref items = Ref::Steal(plain ? PyList_AsTuple(list) : nullptr);
  if (plain && items) {
    const ValueView tuple[] = {ValueView(items, kNoSource)};
    std::optional<Value> done = which == Sums::kSum
                                    ? SumOf(sizes, items, args.size() == 2 ? args[1].object : BorrowedRef())
                                    : sizes.Call(callable.object, tuple, nullptr);
    if (done) return done;
  }
  if (!plain) {
    static const BorrowedRef chain = Named("itertools", "chain");
    items = Ref::Steal(PyObject_CallFunctionObjArgs(chain, list.get(), generator.get(), nullptr));
  }
  if (!items) return Value();
  ValueVector all(args.begin(), args.end());
  all[0] = ValueView(items, kNoSource);
  return calls.CallWith(act, callable, all, nullptr, Completion::kCallback);
}

}  // namespace framefuse
