// Pointwise kernels: a thread takes `vector` neighbouring points, `unroll` times.
#include <bit>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

void Printer::Points() {
  const Block& block = k_.blocks.front();
  Body body{ElementsOf(block)};
  Operand total = IndexSize(CudaSizes::kUnits);
  inner_ = IndexSize(CudaSizes::kInner);
  if (f_.tensors > 1 && !f_.alike) {
    inner_ = TableArgument(SizeWord(at_.Elements(0)), 1, IndexClass());
    const Operand up = f_.exact ? inner_ : Index("add", {inner_, Immediate(f_.vector - 1)});
    total = Index("shr", {up, Immediate(std::countr_zero(static_cast<unsigned>(f_.vector)))});
  }
  const int step = f_.threads * f_.unroll;
  const Operand first = Index("add", {Times(SpecialIndex("ctaid.x"), step), SpecialIndex("tid.x")});
  GridLoop(first, total, step, [&] {
    const auto lanes = static_cast<std::size_t>(f_.unroll) * static_cast<std::size_t>(f_.vector);
    const bool in_rounds = f_.full && f_.unroll > 1 && f_.vector > 1 && lanes * body.values.size() > kLongText;
    if (in_rounds) return CopiesInRounds(first, block, body);
    if (f_.unroll > 1) return Copies(first, total, block, body);
    PointPlace(first, 0);
    CountLanes(inner_);
    PointScalars(block);
    f_.exact ? EmitBody(body) : WholeOrSingles(body);
  });
}

// The loads of all copies are issued before any is used.
void Printer::Copies(const Operand& first, const Operand& total, const Block& block, const Body& body) {
  std::vector<Spot> spots;
  std::vector<Operand> there = {""};
  std::map<std::pair<int, int>, std::vector<Operand>> loaded;
  for (int u = 0; u < f_.unroll; ++u) {
    PointPlace(first, u);
    spots.push_back(spot_);
    std::string end;
    if (u > 0 && !f_.full) {
      const Operand at = Index("add", {first, Immediate(std::int64_t{u} * f_.threads)});
      there.push_back(M(Class::kPred, f_.narrow ? "setp.lt.u32" : "setp.lt.s64", {at, total}));
      t_.JumpUnless(there.back(), end = t_.Label());
    }
    for (int b : VectorReads(body.values)) LoadVector(b, loaded[{b, u}] = NewWords(buffer(b).dtype));
    if (!end.empty()) t_.Place(end);
  }
  for (int u = 0; u < f_.unroll; ++u) {
    spot_ = spots[static_cast<std::size_t>(u)];
    std::string end;
    if (u > 0 && !f_.full) t_.JumpUnless(there[static_cast<std::size_t>(u)], end = t_.Label());
    vectors_ = loaded;
    PointScalars(block);
    EmitBody({body.values, u});
    if (!end.empty()) t_.Place(end);
  }
}

// Copies of which one is written: what the next one has takes the place of what the first had. That is as short as no
// copies, and asks for all at once.
void Printer::CopiesInRounds(const Operand& first, const Block& block, const Body& body) {
  const std::set<int> reads = VectorReads(body.values);
  std::vector<Spot> spots;  // near ones: the first
  std::vector<std::map<std::pair<int, int>, std::vector<Operand>>> loaded(static_cast<std::size_t>(f_.unroll));
  for (int u = 0; u < f_.unroll; ++u) {
    f_.near || u == 0 ? PointPlace(first, u)
                      : PointPlace(Index("add", {first, Immediate(std::int64_t{u} * f_.threads)}), 0);
    for (int b : reads) LoadVector(b, loaded[static_cast<std::size_t>(u)][{b, 0}] = NewWords(buffer(b).dtype));
    if (f_.near && u > 0) continue;
    for (int b = 0; b < buffers(); ++b) {
      Operand& here = spot_.here[static_cast<std::size_t>(b)];
      if (buffer(b).inner != Inner::kUniform && here.empty()) here = LateHere(b);
    }
    spots.push_back(spot_);
  }
  const Operand at = f_.near ? spots[0].index : M(IndexClass(), MoveName(IndexClass()), {first});
  const int step = f_.near ? f_.vector : 1;
  // A number would have the loop unrolled.
  const Operand last = Index("add", {at, Times(SpecialIndex("ntid.x"), std::int64_t{f_.unroll - 1} * step)});
  spot_ = spots[0];
  if (f_.near) PointScalars(block);
  const std::string round = t_.Label();
  t_.PlaceLoop(round);
  if (!f_.near) PointScalars(block);
  vectors_ = loaded[0];
  EmitBody({body.values, 0});
  const Operand more = M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {at, last});
  t_.To(at, StrCat("add", IndexSuffix()), {at, Immediate(std::int64_t{f_.threads} * step)});
  for (std::size_t u = 1; u < loaded.size(); ++u) {
    for (const auto& [place, words] : loaded[u - 1]) TakeWords(buffer(place.first).dtype, words, loaded[u].at(place));
    if (!f_.near) TakePlace(spots[u - 1], spots[u], reads);
  }
  for (int b = 0; f_.near && b < buffers(); ++b) {
    const Operand& here = spots[0].here[static_cast<std::size_t>(b)];
    const std::int64_t bytes = std::int64_t{f_.threads} * step * ElementSize(buffer(b).dtype);
    if (!here.empty() && !reads.contains(b)) t_.To(here, "add.s64", {here, Immediate(bytes)});
  }
  t_.Do(StrCat("@", more, " bra.uni"), {round});
}

void Printer::TakePlace(const Spot& to, const Spot& from, const std::set<int>& read) {
  const auto take = [&](Class c, const Operand& a, const Operand& b) {
    if (a != b && !b.empty()) t_.To(a, MoveName(c), {b});
  };
  take(IndexClass(), to.index, from.index);
  for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
    if (!read.contains(static_cast<int>(b))) take(Class::k64, to.here[b], from.here[b]);
    take(Class::k64, to.row[b], from.row[b]);
  }
}

void Printer::PointPlace(const Operand& first, int copy) {
  const std::int64_t past = static_cast<std::int64_t>(copy) * f_.threads;
  if ((f_.rank == 0 || f_.near) && copy > 0) {
    spot_.plus = past * f_.vector;
    return;
  }
  Operand vector = past == 0 ? first : Index("add", {first, Immediate(past)});
  spot_ = {};
  if (f_.rank > 0) {
    const Operand rest = Divide(vector, CudaSizes::kVectorsDiv);
    vector = Index("sub", {vector, Index("mul.lo", {rest, IndexSize(CudaSizes::kVectors)})});
    spot_.outer = Coordinates(rest, f_.rank);
    Scale(spot_.outer);
  }
  spot_.index = Times(vector, f_.vector);
  CountBytes();
  spot_.here.resize(k_.buffers.size());
  std::vector<Operand> row(k_.buffers.size());
  for (int b = 0; b < buffers(); ++b) {
    if (!IsVector(b))
      row[static_cast<std::size_t>(b)] = AtCoordinates(base_[static_cast<std::size_t>(b)], b, spot_.outer);
  }
  SetRow(row);
  for (int b = 0; b < buffers(); ++b) {
    // Where something is written is asked for late: it would take registers until then.
    if (buffer(b).inner != Inner::kUniform && !buffer(b).written) spot_.here[static_cast<std::size_t>(b)] = LateHere(b);
  }
}

// The pointers of the spot's row; those of vectors are not there yet.
std::vector<Operand> Printer::RowOfPoint() {
  std::vector<Operand> row = spot_.row;
  for (int b = 0; b < buffers(); ++b) {
    if (IsVector(b))
      row[static_cast<std::size_t>(b)] = AtCoordinates(base_[static_cast<std::size_t>(b)], b, spot_.outer);
  }
  return row;
}

// Of a vector: its row is not at hand.
Operand Printer::LateHere(int b) {
  if (!IsVector(b) || spot_.outer.empty()) return Here(b);
  Operand place = AtCoordinates(base_[static_cast<std::size_t>(b)], b, spot_.outer);
  if (!f_.narrow) return M(Class::k64, "add.s64", {place, spot_.bytes.at(ElementSize(buffer(b).dtype))});
  return M(Class::k64, "mad.wide.u32", {spot_.index, Immediate(ElementSize(buffer(b).dtype)), place});
}

void Printer::PointScalars(const Block& block) {
  for (ValueId id : block.code) {
    if (level(id) == Level::kRow && inst(id).op != Op::kStore) Scalar(id);
  }
}

// Guards for each lane of each buffer would be most of the code.
void Printer::WholeOrSingles(const Body& body) {
  if (f_.vector == 1) return EmitSingles(body);
  const std::string singles = t_.Label(), end = t_.Label();
  t_.JumpUnless(whole_, singles);
  lanes_ = Lanes::kWhole;
  EmitBody(body);
  lanes_ = Lanes::kGuarded;
  t_.Jump(end);
  t_.Place(singles);
  EmitSingles(body);
  t_.Place(end);
}

}  // namespace framefuse::emit::ptx
