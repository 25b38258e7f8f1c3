// Rounds: a long loop over the chunks of a row is written for one of them, or for one of two segments, and run for all,
// since what the assembler takes goes with the length of the text. What the next has takes the place of the first's in
// between: registers cannot be asked for by number.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

int Printer::Rounds(const std::vector<ValueId>& elements) const {
  const bool even = f_.full && f_.chunks % 2 == 0 && (!k_.segments || f_.segments == 2);
  std::size_t bytes = 0;  // all of it is in registers while the loop runs
  for (const auto& [place, words] : held_)
    bytes += words.size() * static_cast<std::size_t>(std::max(4, ElementSize(buffer(place.first).dtype)));
  const std::size_t lanes = static_cast<std::size_t>(f_.chunks) * static_cast<std::size_t>(f_.vector);
  const bool pays = bytes <= kMostTurned && lanes * (elements.size() - PackedExtremes({elements}).size()) > kLongText;
  if (!even || !pays || (k_.scratch_rows > 0 && KeepsScratch())) return 1;
  return k_.segments ? 2 : f_.chunks;
}

void Printer::ChunksInRounds(const Block& block, const std::vector<ValueId>& elements, int rounds) {
  const int each = f_.chunks / rounds;
  const std::int64_t chunk = static_cast<std::int64_t>(f_.row_threads) * f_.vector;
  const Operand at = M(IndexClass(), MoveName(IndexClass()), {k_.segments ? "0" : first_});
  Turns turns;  // of segments
  const std::map<ValueId, std::vector<Operand>> values = segment_values_;
  if (k_.segments) PlacesInTurn(block, elements, &turns);
  const std::vector<Operand> places = spot_.segment;
  const std::string round = t_.Label();
  t_.PlaceLoop(round);
  spot_.segment = places;
  GoTo(k_.segments ? first_ : at);
  if (k_.segments) SegmentScalars(block, 0);
  for (int c = 0; c < each; ++c) {
    spot_.plus = c * chunk;
    vectors_ = held_;
    EmitBody({elements, c});
  }
  UnpackExtremes();  // of this round's words: the next one has others in the same registers
  t_.To(at, StrCat("add", IndexSuffix()), {at, k_.segments ? "1" : Immediate(each * chunk)});
  // Against an argument: with a number the loop would be unrolled.
  const Operand limit = k_.segments ? IndexSize(CudaSizes::kSegments) : inner_;
  const Operand more = M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {at, limit});
  TurnChunks(block, each);
  for (const auto& [to, from] : turns)
    t_.To(to, to[2] == 'd' ? "mov.b64" : to[1] == 'p' ? "mov.pred" : "mov.b32", {from});
  t_.Do(StrCat("@", more, " bra.uni"), {round});
  segment_values_ = values;
}

// Those of the next round become the first, and, where a later loop reads them, the first the last.
void Printer::TurnChunks(const Block& block, int each) {
  std::map<std::pair<int, int>, std::vector<Operand>> first;
  for (const auto& [place, words] : held_) {
    const auto [b, c] = place;
    if (c >= each || !ReadAfter(block, b)) continue;
    TakeWords(buffer(b).dtype, first[place] = NewWords(buffer(b).dtype), words);
  }
  for (const auto& [place, words] : held_) {
    const auto [b, c] = place;
    if (c + each < f_.chunks) {
      TakeWords(buffer(b).dtype, words, held_.at({b, c + each}));
    } else if (const auto found = first.find({b, c + each - f_.chunks}); found != first.end()) {
      TakeWords(buffer(b).dtype, words, found->second);
    }
  }
}

// Pointers and values of the segment in registers that are written again.
void Printer::PlacesInTurn(const Block& block, const std::vector<ValueId>& elements, Turns* turns) {
  const auto turn = [&](Class c, const Operand& first, const Operand& second) {
    turns->emplace_back(M(c, MoveName(c), {first}), second);
    return turns->back().first;
  };
  SetSegment("1");
  const std::vector<Operand> second = spot_.segment;
  SetSegment("0");
  const std::vector<ValueId> of_segment = SegmentValuesOf(block);
  std::set<int> used;  // but where what is loaded takes turns itself
  for (const std::vector<ValueId>* values : {&elements, &of_segment}) {
    for (ValueId id : *values) {
      const Inst& in = inst(id);
      const bool loaded = in.op == Op::kLoad && (values == &of_segment || held_.contains({in.slot, 0}));
      if (!loaded && (in.op == Op::kLoad || in.op == Op::kLoadAt || in.op == Op::kLoadFrom || in.op == Op::kStore))
        used.insert(in.slot);
    }
  }
  for (int b : used) {
    Operand& place = spot_.segment[static_cast<std::size_t>(b)];
    if (buffer(b).segmented) place = turn(Class::k64, place, second[static_cast<std::size_t>(b)]);
  }
  for (ValueId id : of_segment) {
    const auto found = segment_values_.find(id);
    if (found == segment_values_.end()) continue;
    std::vector<Operand>& of = found->second;
    of[0] = turn(ClassOf(inst(id).type), of[0], of[1]);
  }
}

bool Printer::ReadAfter(const Block& block, int b) const {
  for (const Block* later = &block + 1; later != k_.blocks.data() + k_.blocks.size(); ++later) {
    if (later->kind == BlockKind::kLoop && VectorReads(ElementsOf(*later)).contains(b)) return true;
  }
  return false;
}

}  // namespace framefuse::emit::ptx
