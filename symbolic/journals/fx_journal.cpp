#include "symbolic/journals/fx_journal.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "symbolic/journals/tracked.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/numpy_scalars.h"

namespace framefuse {
namespace {

constexpr int kMaxDepth = 32;

// A value as it is now: the program may go on to write its lists and dicts. What they hold stays the same objects.
Ref AsItIs(BorrowedRef value, int depth = 0) {
  PyObject* o = value.get();
  const bool has_parts = o != nullptr && (PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o));
  if (!has_parts || depth == kMaxDepth) return Ref::Create(o);
  if (PyDict_CheckExact(o)) {
    Ref copy = Ref::Steal(PyDict_Copy(o));
    PyObject *key, *part;
    Py_ssize_t position = 0;
    while (copy && PyDict_Next(o, &position, &key, &part)) {
      const Ref as_it_is = AsItIs(part, depth + 1);
      PyDict_SetItem(copy, key, as_it_is);
    }
    return copy;
  }
  const Py_ssize_t size = Py_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  Ref copy = Ref::Steal(PyTuple_CheckExact(o) ? PyTuple_New(size) : PyList_New(size));
  for (Py_ssize_t i = 0; copy && i < size; ++i) {
    PySequence_Fast_ITEMS(copy.get())[i] = AsItIs(items[i], depth + 1).release();
  }
  return copy;
}

// Fakes in a value, to any depth of its tuples, lists and dicts.
void FindFakes(BorrowedRef value, std::vector<BorrowedRef>* fakes, int depth = 0) {
  PyObject* o = value.get();
  if (o == nullptr || depth == kMaxDepth) return;
  if (tracing::Tracer::IsFake(value)) {
    fakes->push_back(value);
  } else if (PyTuple_Check(o) || PyList_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(o); ++i) FindFakes(PySequence_Fast_GET_ITEM(o, i), fakes, depth + 1);
  } else if (PyDict_CheckExact(o)) {
    PyObject *key, *part;
    for (Py_ssize_t position = 0; PyDict_Next(o, &position, &key, &part) != 0;) FindFakes(part, fakes, depth + 1);
  }
}

// Whether a graph can hold the value: what its call would do with it then is what it did.
bool IsForGraph(BorrowedRef value, int depth = 0) {
  PyObject* o = value.get();
  if (o == nullptr || tracing::Tracer::IsFake(value) || IsLeaf(value) || IsNumberForNumpy(value)) return true;
  if (PyType_Check(o) || PyCFunction_Check(o)) return true;
  if (depth == kMaxDepth) return false;
  const auto is_for_graph = [depth](BorrowedRef part) { return IsForGraph(part, depth + 1); };
  if (PyTuple_Check(o) || PyList_CheckExact(o)) {
    PyObject** items = PySequence_Fast_ITEMS(o);
    return std::all_of(items, items + Py_SIZE(o), is_for_graph);
  }
  if (PySlice_Check(o)) {
    auto* slice = reinterpret_cast<PySliceObject*>(o);
    return is_for_graph(slice->start) && is_for_graph(slice->stop) && is_for_graph(slice->step);
  }
  if (!PyDict_CheckExact(o)) return false;
  PyObject *key, *part;
  for (Py_ssize_t position = 0; PyDict_Next(o, &position, &key, &part) != 0;) {
    if (!PyUnicode_CheckExact(key) || !is_for_graph(part)) return false;
  }
  return true;
}

// Of Tracer::StateOf's row.
enum StateField : std::uint8_t { kValue, kStorage, kHistory, kGradient, kRequiresGrad, kRetainsGrad, kHasHooks };

Ref TupleOf(absl::Span<const BorrowedRef> items) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].get()));
  }
  return tuple;
}

FxNode NodeOfCall(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames, BorrowedRef result,
                  bool keep_values) {
  FxNode node;
  const bool method = callable.type() == &PyMethodDescr_Type || callable.type() == &PyWrapperDescr_Type;
  node.op = method ? FxNode::Op::kCallMethod : FxNode::Op::kCallFunction;
  node.target = Ref::Create(method ? reinterpret_cast<PyDescrObject*>(callable.get())->d_name : callable.get());
  if (!keep_values) return node;
  const std::size_t count = PositionalCount(args, kwnames);
  std::vector<BorrowedRef> positional;
  for (std::size_t i = 0; i < count; ++i) positional.push_back(args[i].object);
  node.args = TupleOf(positional);
  node.kwargs = Ref::Steal(PyDict_New());
  for (std::size_t i = count; i < args.size(); ++i) {
    PyDict_SetItem(node.kwargs, PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - count)), args[i].object);
  }
  node.result = Ref::Create(result);
  return node;
}

bool IsMethodOfContainer(BorrowedRef callable) {
  if (callable.type() != &PyMethodDescr_Type && callable.type() != &PyWrapperDescr_Type) return false;
  const PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable.get())->d_type;
  return owner == &PyList_Type || owner == &PyTuple_Type || owner == &PyDict_Type || owner == &PySet_Type ||
         owner == DequeType();
}

bool IsInput(const tracing::Tracer& tracer, BorrowedRef fake) {
  const Ref real = tracer.RealOf(fake);
  return static_cast<bool>(real);
}

// A leaf that requires grad and was made here. A view that was made while grad mode was off is none.
bool IsMadeLeaf(const tracing::Tracer& tracer, BorrowedRef fake) {
  const at::Tensor& t = THPVariable_Unpack(fake.get());
  if (tracer.ValueOf(fake) < 0) return false;  // it is wrapped
  const auto* view = torch::autograd::impl::get_view_autograd_meta(t);
  return t.requires_grad() && tracing::Tracer::StateOf(fake)[kHistory] == 0 &&
         (view == nullptr || !view->has_bw_view()) && !IsInput(tracer, fake);
}

}  // namespace

void FxJournal::Add(FxNode node) {
  node.args = keep_values_ ? AsItIs(node.args) : Ref();
  node.kwargs = keep_values_ ? AsItIs(node.kwargs) : Ref();
  node.result = keep_values_ ? AsItIs(node.result) : Ref();
  std::vector<BorrowedRef> fakes;
  FindFakes(node.result, &fakes);
  for (BorrowedRef fake : fakes) results_.try_emplace(fake.get(), nodes_.size());
  nodes_.push_back(std::move(node));
}

bool FxJournal::NoteWarning() {
  ++warnings_;
  return open_calls_ > 0;
}

void FxJournal::NoteBackwardPass() {
  if (backward_pass_ < 0) backward_pass_ = tracer_.NodeCount();
}

void FxJournal::Truncate(std::size_t count) {
  if (count == nodes_.size()) return;
  absl::erase_if(results_, [count](const auto& result) { return result.second >= count; });
  nodes_.resize(count);
}

FxCall::FxCall(FxJournal& journal, std::initializer_list<BorrowedRef> objects)
    : journal_(journal),
      entries_(journal.nodes_.size()),
      nodes_(journal.tracer_.NodeCount()),
      frames_(journal.frames_),
      warnings_(journal.warnings_) {
  ++journal.open_calls_;
  if (!journal.keep_values_) return;
  std::vector<BorrowedRef> fakes;
  for (BorrowedRef object : objects) FindFakes(object, &fakes);
  for (BorrowedRef fake : fakes) fakes_.push_back(Ref::Create(fake));
  NoteStates();
}

FxCall::FxCall(FxJournal& journal, absl::Span<const ValueView> args) : FxCall(journal, {}) {
  if (!journal.keep_values_) return;
  std::vector<BorrowedRef> fakes;
  for (const ValueView& v : args) FindFakes(v.object, &fakes);
  for (BorrowedRef fake : fakes) fakes_.push_back(Ref::Create(fake));
  NoteStates();
}

void FxCall::NoteStates() {
  for (const Ref& fake : fakes_) states_.push_back(tracing::Tracer::StateOf(fake));
}

std::string_view FxCall::RecordCall(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                                    BorrowedRef result, bool in_any_case) {
  if (!journal_.keep_values_ && !in_any_case && journal_.tracer_.NodeCount() == nodes_) return {};
  // What it compared is no part of a graph, and the container is another by now.
  if (!in_any_case && IsMethodOfContainer(callable) && !HandsOutNew(result)) return Confirm(result);
  return Record(NodeOfCall(callable, args, kwnames, result, journal_.keep_values_), in_any_case);
}

std::string_view FxCall::RecordHostTensor(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                                          BorrowedRef result) {
  FxNode node = NodeOfCall(callable, args, kwnames, result, journal_.keep_values_);
  node.op = FxNode::Op::kHostTensor;
  return Record(std::move(node), true);
}

std::string_view FxCall::RecordOperator(BorrowedRef function, std::initializer_list<BorrowedRef> operands,
                                        BorrowedRef result) {
  FxNode node;
  node.target = Ref::Create(function);
  node.args = TupleOf(absl::MakeConstSpan(operands.begin(), operands.size()));
  node.kwargs = Ref::Steal(PyDict_New());
  node.result = Ref::Create(result);
  return Record(std::move(node), !journal_.keep_values_);
}

std::string_view FxCall::RecordAttribute(BorrowedRef owner, BorrowedRef name, BorrowedRef result) {
  FxNode node;
  node.op = FxNode::Op::kGetAttr;
  node.target = Ref::Create(name);
  node.args = TupleOf({owner, name});
  node.kwargs = Ref::Steal(PyDict_New());
  node.result = Ref::Create(result);
  return Record(std::move(node), !journal_.keep_values_);
}

std::string_view FxCall::Record(FxNode node, bool in_any_case) {
  const std::string_view error = Confirm(node.result);
  if (!error.empty()) return error;
  node.begin = nodes_;
  node.end = journal_.tracer_.NodeCount();
  // What computes nothing has no place in a graph, except where an alias of its argument comes out.
  const bool takes_part = node.end > node.begin || (journal_.keep_values_ && HandsOutNew(node.result));
  if (!takes_part && !in_any_case) return {};
  const bool to_be_operators = journal_.keep_values_ && IsToBeOperators();
  if (journal_.frames_ == frames_ && to_be_operators) journal_.Truncate(entries_);
  if (to_be_operators || (journal_.as_operators_ > 0 && journal_.keep_values_ && !in_any_case) ||
      journal_.frames_ != frames_ || !IsForGraph(node.args) || !IsForGraph(node.kwargs)) {
    NoteNewValues(node);
    return {};
  }
  journal_.Truncate(entries_);
  journal_.Add(std::move(node));
  return {};
}

bool FxCall::IsToBeOperators() const {
  if (journal_.warnings_ != warnings_) return true;
  for (std::size_t i = 0; i < fakes_.size(); ++i) {
    const State now = tracing::Tracer::StateOf(fakes_[i]);
    if (!now.empty() && now[kValue] != states_[i][kValue] && IsInput(journal_.tracer_, fakes_[i])) return true;
  }
  return false;
}

void FxCall::NoteNewValues(const FxNode& call) {
  if (!journal_.keep_values_) return;
  FxNode node;
  node.op = FxNode::Op::kBecomes;
  node.target = call.target;
  const Ref tensors = Ref::Steal(PyList_New(0));
  const Ref values = Ref::Steal(PyList_New(0));
  for (std::size_t i = 0; i < fakes_.size(); ++i) {
    const State now = tracing::Tracer::StateOf(fakes_[i]);
    if (now.empty() || now[kValue] == states_[i][kValue]) continue;
    PyList_Append(tensors, fakes_[i]);
    PyList_Append(values, Ref::Steal(PyLong_FromSize_t(now[kValue])).get());
  }
  if (PyList_GET_SIZE(tensors.get()) == 0) return;
  node.args = Ref::Create(tensors);
  node.kwargs = Ref::Steal(PyDict_New());
  node.result = Ref::Create(values);
  node.begin = journal_.frames_ == frames_ ? call.begin : call.end;
  node.end = call.end;
  journal_.Add(std::move(node));
}

bool FxCall::HandsOutNew(BorrowedRef result) const {
  std::vector<BorrowedRef> fakes;
  FindFakes(result, &fakes);
  return std::any_of(fakes.begin(), fakes.end(), [this](BorrowedRef fake) {
    const auto same = [fake](const Ref& known) { return known.get() == fake.get(); };
    return std::none_of(fakes_.begin(), fakes_.end(), same) && !journal_.results_.contains(fake.get()) &&
           !IsInput(journal_.tracer_, fake);
  });
}

// A backend that differentiates the graph for itself sees its operators only.
std::string_view FxCall::Confirm(BorrowedRef result) const {
  if (!journal_.keep_values_) return {};
  if (journal_.as_operators_ == 0 && journal_.frames_ != frames_ && at::impl::PythonTorchFunctionTLS::stack_len() > 0) {
    return "a torch function mode sees the calls of a graph for an FX backend, where it would see them again";
  }
  const bool recorded = journal_.tracer_.NodeCount() > nodes_;
  for (std::size_t i = 0; i < fakes_.size(); ++i) {
    const State& before = states_[i];
    const State now = tracing::Tracer::StateOf(fakes_[i]);
    if (now == before) continue;
    const bool of_pass = journal_.backward_pass_ >= 0;
    if (now[kGradient] != before[kGradient] && now[kGradient] != 0 && !of_pass) {
      return "a gradient is set in a graph for an FX backend";
    }
    if (now[kHasHooks] != before[kHasHooks] || now[kRetainsGrad] != before[kRetainsGrad]) {
      return "a hook in a graph for an FX backend";
    }
    if (recorded) continue;
    if (now[kRequiresGrad] != before[kRequiresGrad]) return "requires_grad is set in a graph for an FX backend";
    if (now[kValue] != before[kValue] || now[kStorage] != before[kStorage]) {
      return "the data of a tensor is replaced in a graph for an FX backend";
    }
  }
  if (result.get() == nullptr) return {};
  std::vector<BorrowedRef> made;
  FindFakes(result, &made);
  for (BorrowedRef fake : made) {
    if (IsMadeLeaf(journal_.tracer_, fake)) {
      return "a leaf that requires grad is made in a graph for an FX backend";
    }
  }
  return {};
}

}  // namespace framefuse
