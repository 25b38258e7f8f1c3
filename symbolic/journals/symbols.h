// Symbols: the symbolic sizes of an attempt: which dimensions of an input get one, and the guards that come of what the
// attempt asked about them (symbolic/tracing/sizes.h).
// Invariant: a dimension whose size is symbolic is left out of its tensor's guard; what the attempt relied on about it
// stands in one guard of its own.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_SYMBOLS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_SYMBOLS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/entry/entry_sizes.h"
#include "symbolic/journals/value_reads.h"
#include "symbolic/learned/dynamic_sizes.h"
#include "symbolic/learned/unbacked_places.h"
#include "symbolic/tracing/sizes.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class FrameStack;
class ReadJournal;
struct TensorInput;

class Symbols final : public tracing::SizeListener {
 public:
  // `sizes` null: none are symbolic. `floats`: whether floats may be.
  Symbols(const DynamicSizes* sizes, bool floats, FrameStack& frames, ReadJournal& reads, tracing::Tracer& tracer)
      : sizes_(sizes), floats_(floats), frames_(frames), reads_(reads), tracer_(tracer) {}

  bool none() const { return tracer_.sizes().symbols().empty(); }
  bool any_backed() const;  // not only such as the graph defines
  tracing::SymbolicDims DimsOf(BorrowedRef tensor, SourceId source, bool is_parameter) const;
  // After the tensor's guard was added: what of it is symbolic is left to the guard on sizes.
  void FreeDimsOf(SourceId source, int input_index);
  bool IsNumberSymbolic(SourceId source) const;  // what is there changes from call to call
  // The same for an array of numbers, which the entry hands on from then on.
  bool TakesArray(SourceId source);
  // The same for a list or tuple: its length changes, or a number in it, however deep.
  bool TakesList(BorrowedRef list, SourceId source);
  // What a run without symbols might do better: not with arrays that changed more than once, unless `always`.
  bool MayFix(bool always) const { return any_backed() || took_new_array_ || (always && took_array_); }
  // The symbolic integer that stands for an int of the program's; null: it stays what it is.
  Ref NumberAt(BorrowedRef original, SourceId source);
  // len() of a container of the program's own, and `more` items that were appended; null: it is not symbolic.
  Ref LengthAt(BorrowedRef original, SourceId source, Py_ssize_t more);
  std::string WhereNeeded(ir::SymbolIndex unbacked) const;  // as a number; empty: nobody knows
  // Where a symbol's value stands in a call.
  EntrySizes::Symbol PlaceOf(ir::SymbolIndex symbol, const std::vector<TensorInput>& inputs) const;
  void OnFact(ir::Dim fact) override;

  // At the end of an attempt: the guard, and what the entry needs; null: no size is symbolic.
  std::shared_ptr<const EntrySizes> Close(const std::vector<TensorInput>& inputs);
  // What it relies on about symbols that the graph defines, in the order of the graph's deferred facts.
  std::vector<DeferredFact> Deferred(const std::vector<ValueReads::Definition>& definitions) const;

 private:
  bool IsBuffer(SourceId source) const;
  bool IsNoted(SourceId source) const;
  std::string TextOf(SourceId source) const;
  std::string TextOfSiblings(SourceId source) const;
  bool IsNotedWithin(BorrowedRef list, const std::string& text) const;
  DimMask DimsOfNumbers(SourceId source) const;

  const DynamicSizes* sizes_;
  bool floats_, took_array_ = false, took_new_array_ = false;
  FrameStack& frames_;
  ReadJournal& reads_;
  tracing::Tracer& tracer_;
  std::vector<std::string> places_;  // by fact
  std::vector<std::pair<SourceId, Ref>> numbers_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_SYMBOLS_H_
