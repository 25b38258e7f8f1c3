// ValueReads: the values that an attempt read out of its inputs' data and relied on (symbolic/tracing/value_reads.h):
// each becomes a guard that computes it anew. Invariant: the tensors that a value follows from have guards on their
// metadata, which are checked before it.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_JOURNALS_VALUE_READS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_JOURNALS_VALUE_READS_H_

#include <memory>

#include "symbolic/capture/value_places.h"
#include "symbolic/tracing/value_reads.h"

namespace framefuse {

class FrameStack;
class ObjectTable;
class ReadJournal;

class ValueReads final : public tracing::ValueReader {
 public:
  // `places` null: nothing is relied on.
  ValueReads(ValuePlaces* places, FrameStack& frames, ReadJournal& reads, const ObjectTable& objects)
      : places_(places), frames_(frames), reads_(reads), objects_(objects) {}

  bool MayRelyOn(std::uint64_t digest) override;
  void Relied(std::shared_ptr<const tracing::ValueRead> read) override;

 private:
  ValuePlaces* places_;
  FrameStack& frames_;
  ReadJournal& reads_;
  const ObjectTable& objects_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_JOURNALS_VALUE_READS_H_
