// ValueReads: the values that an attempt read out of its inputs' data and relied on (symbolic/tracing/value_reads.h):
// each becomes a guard that computes it anew. Invariant: the tensors that a value follows from have guards on their
// metadata, which are checked before it.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_VALUE_READS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_VALUE_READS_H_

#include <memory>
#include <vector>

#include "symbolic/learned/unbacked_places.h"
#include "symbolic/learned/value_places.h"
#include "symbolic/tracing/expected_checks.h"
#include "symbolic/tracing/value_reads.h"

namespace framefuse {

class BackwardPhase;
class ExpectedTruths;
class FrameStack;
class ObjectTable;
class ReadJournal;
class Symbols;

class ValueReads final : public tracing::ValueReader, public tracing::CheckReader {
 public:
  // `places` null: nothing is relied on. `unbacked` null: nothing becomes a symbol. `checks_unbacked`: see
  // ChecksUnbacked.
  ValueReads(ValuePlaces* places, const UnbackedPlaces* unbacked, bool checks_unbacked, const BackwardPhase& backward,
             FrameStack& frames, ReadJournal& reads, const ObjectTable& objects, const Symbols& symbols,
             ExpectedTruths& expected)
      : places_(places),
        unbacked_(unbacked),
        checks_unbacked_(checks_unbacked),
        backward_(backward),
        frames_(frames),
        reads_(reads),
        objects_(objects),
        symbols_(symbols),
        expected_(expected) {}

  bool MayRelyOn(std::uint64_t digest) override;
  void Relied(std::shared_ptr<const tracing::ValueRead> read) override;
  bool TakesUnbacked() override;
  bool ChecksUnbacked() override { return checks_unbacked_; }
  void AddedUnbacked(int symbol) override;
  bool ExpectOfTorch(const at::Tensor& fake, bool truth) override;

  // Where a symbol was defined.
  struct Definition {
    int symbol = 0;
    PyCodeObject* code = nullptr;
    int instruction = 0;
  };
  const std::vector<Definition>& definitions() const { return definitions_; }

 private:
  ValuePlaces* places_;
  const UnbackedPlaces* unbacked_;
  const bool checks_unbacked_;
  const BackwardPhase& backward_;
  FrameStack& frames_;
  ReadJournal& reads_;
  const ObjectTable& objects_;
  const Symbols& symbols_;
  ExpectedTruths& expected_;
  std::vector<Definition> definitions_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_VALUE_READS_H_
