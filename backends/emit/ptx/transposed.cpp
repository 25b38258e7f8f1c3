// Transposed kernels: a block takes a tile; what lies across it is turned in shared memory, where columns of halves lie
// two by two (see TurnPairs of emit/cuda/print_cuda.cpp for the order of their groups).
#include <bit>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

namespace {

Operand Shift(int n) { return Immediate(std::countr_zero(static_cast<unsigned>(n))); }

// The quotient and the rest.
std::pair<Operand, Operand> Split(Text* t, const Operand& j, int by) {
  if (std::has_single_bit(static_cast<unsigned>(by))) {
    return {t->Make(Class::k32, "shr.u32", {j, Shift(by)}), t->Make(Class::k32, "and.b32", {j, Immediate(by - 1)})};
  }
  const Operand over = t->Make(Class::k32, "div.u32", {j, Immediate(by)});
  return {over, t->Make(Class::k32, "sub.u32", {j, t->Make(Class::k32, "mul.lo.u32", {over, Immediate(by)})})};
}

}  // namespace

void Printer::Transposed() {
  const int last = f_.rank - 1;
  const Operand block = SpecialIndex("ctaid.x"), tile = Divide(block, CudaSizes::kVectorsDiv);
  left_ = Index("sub", {block, Index("mul.lo", {tile, IndexSize(CudaSizes::kVectors)})});
  left_ = Times(left_, f_.tile_columns);
  top_ = tile;
  batch_ = base_;
  if (last > 0) {
    const Operand down = IndexSize(CudaSizes::kDown), batch = Index("div", {tile, down});
    top_ = Index("sub", {tile, Index("mul.lo", {batch, down})});
    batch_ = Pointers(Coordinates(batch, last));
  }
  top_ = Times(top_, f_.tile_rows);
  rows_ = IndexSize(CudaSizes::kUnits);
  inner_ = IndexSize(CudaSizes::kInner);
  const Body body{ElementsOf(k_.blocks.front())};
  const int vectors = f_.tile_rows * f_.tile_columns / f_.vector;
  const std::set<int> reads = VectorReads(body.values);
  std::map<std::pair<int, int>, std::vector<Operand>> loaded;
  // The other buffers are read beside the tiles, not after them.
  const int parts = PartsOf(vectors);
  if (parts <= kParts && !reads.empty()) {
    Parts(vectors, [&](const Operand& j, int u) {
      for (int b : reads) loaded[{b, u}] = NewWords(buffer(b).dtype);
      TilePart(j, [&] {
        for (int b : reads) LoadVector(b, loaded.at({b, u}));
      });
    });
  }
  for (int b = 0; b < buffers(); ++b) {
    if (IsTile(b)) TurnTile(b);
  }
  t_.Do("bar.sync", {"0"});
  const auto part = [&](const Operand& j, int u) {
    TilePart(j, [&] {
      LoadPairs();
      vectors_ = loaded;
      PointScalars(k_.blocks.front());
      EmitBody({body.values, u});
    });
  };
  const bool rounds = vectors % f_.threads == 0 && parts > 1 && parts <= kParts;
  rounds ? PartsInRounds(parts, loaded, part) : Parts(vectors, part);
}

// Written for the first of them: what the next one has read takes the place of what the first had.
void Printer::PartsInRounds(int parts, const std::map<std::pair<int, int>, std::vector<Operand>>& loaded,
                            const std::function<void(const Operand& j, int u)>& body) {
  const Operand j = M(Class::k32, "mov.b32", {Special("tid.x", false)});
  // A number would have the loop unrolled.
  const Operand all = M(Class::k32, "mul.lo.u32", {Special("ntid.x", false), Immediate(parts)});
  const std::string round = t_.Label();
  t_.PlaceLoop(round);
  body(j, 0);
  t_.To(j, "add.u32", {j, Immediate(f_.threads)});
  const Operand more = M(Class::kPred, "setp.lt.u32", {j, all});
  for (const auto& [place, words] : loaded) {
    const auto [b, u] = place;
    if (u + 1 < parts) TakeWords(buffer(b).dtype, words, loaded.at({b, u + 1}));
  }
  t_.Do(StrCat("@", more, " bra.uni"), {round});
}

void Printer::Parts(int all, const std::function<void(const Operand& j, int u)>& body) {
  const Operand tid = Special("tid.x", false);
  const int parts = PartsOf(all);
  if (parts > kMostParts || (parts > kParts && all % f_.threads == 0)) {
    const Operand j = M(Class::k32, "mov.b32", {tid});
    return Loop(j, Immediate(all), Immediate(f_.threads), [&] { body(j, 0); });
  }
  for (int u = 0; u < parts; ++u) {
    const Operand j = u == 0 ? tid : M(Class::k32, "add.u32", {tid, Immediate(std::int64_t{u} * f_.threads)});
    const bool some = (u + 1) * f_.threads > all;
    const std::string end = some ? t_.Label() : "";
    if (some) t_.JumpUnless(M(Class::kPred, "setp.lt.u32", {j, Immediate(all)}), end);
    body(j, u);
    if (some) t_.Place(end);
  }
}

// A thread's vector of the tile, if it is there.
void Printer::TilePart(const Operand& j, const std::function<void()>& body) {
  std::tie(tile_row_, tile_column_) = Split(&t_, j, f_.tile_columns / f_.vector);
  if (f_.vector > 1) tile_column_ = M(Class::k32, "shl.b32", {tile_column_, Shift(f_.vector)});
  const Operand row = Index("add", {top_, WideIndex(tile_row_)});
  first_ = Index("add", {left_, WideIndex(tile_column_)});
  const std::string end = Inside(row, first_);
  RowAt(row);
  CountLanes(inner_);
  body();
  t_.Place(end);
}

// To the label that is returned where the point is outside.
std::string Printer::Inside(const Operand& row, const Operand& i) {
  const std::string less = StrCat("setp.lt", IndexSuffix());
  std::string end = t_.Label();
  const Operand down = M(Class::kPred, less, {row, rows_}), across = M(Class::kPred, less, {i, inner_});
  t_.JumpUnless(M(Class::kPred, "and.pred", {down, across}), end);
  return end;
}

Operand Printer::TileName(int b) const { return StrCat(name_, "_tile", b); }

// Of a row of a tile, in bytes.
int Printer::TilePitch(int b) const {
  const int size = ElementSize(buffer(b).dtype);
  return IsPaired(b) ? kTile * size : (f_.tile_columns + (size <= 2 ? 2 : 1)) * size;
}

void Printer::TurnTile(int b) {
  t_.Shared(TileName(b), f_.tile_rows * TilePitch(b));
  if (IsPaired(b)) return Parts(kTile * kTile / 16, [&](const Operand& j, int) { TurnPairs(b, j); });
  Parts(f_.tile_rows * f_.tile_columns / f_.vector, [&](const Operand& j, int) { TurnColumn(b, j); });
}

void Printer::TurnColumn(int b, const Operand& j) {
  const int size = ElementSize(buffer(b).dtype);
  auto [column, row] = Split(&t_, j, f_.tile_rows / f_.vector);
  if (f_.vector > 1) row = M(Class::k32, "shl.b32", {row, Shift(f_.vector)});
  const Operand i = Index("add", {left_, WideIndex(column)});
  const Operand from = Index("add", {top_, WideIndex(row)});
  const std::string end = Inside(from, i);
  CountDown(from);
  const std::vector<Operand> words = NewWords(buffer(b).dtype);
  LoadDown(b, from, i, words);
  Operand to = M(Class::k32, "mov.u32", {TileName(b)});
  to = M(Class::k32, "mad.lo.u32", {row, Immediate(TilePitch(b)), to});
  to = M(Class::k32, "mad.lo.u32", {column, Immediate(size), to});
  for (int k = 0; k < f_.vector; ++k) {
    t_.Do(StrCat("st.shared", MemorySuffix(BitsOf(buffer(b).dtype))),
          {Memory(to, std::int64_t{k} * TilePitch(b)), RawOfWords(buffer(b).dtype, words, k)});
  }
  t_.Place(end);
}

void Printer::TurnPairs(int b, const Operand& j) {
  const Operand pair = M(Class::k32, "shr.u32", {j, "3"}), band = M(Class::k32, "and.b32", {j, "7"});
  const Operand row = M(Class::k32, "shl.b32", {band, "3"});
  const Operand i = Index("add", {left_, WideIndex(M(Class::k32, "shl.b32", {pair, "1"}))});
  const Operand from = Index("add", {top_, WideIndex(row)});
  const std::string end = Inside(from, i);
  CountDown(from);
  const std::vector<Operand> x = NewWords(buffer(b).dtype), y = NewWords(buffer(b).dtype);
  LoadDown(b, from, i, x);
  const Operand next = Index("add", {i, "1"});
  std::string alone;
  if (!f_.exact) {  // exact: the columns are even
    for (std::size_t w = 0; w < x.size(); ++w) t_.To(y[w], "mov.b32", {x[w]});
    t_.JumpUnless(M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {next, inner_}), alone = t_.Label());
  }
  LoadDown(b, from, next, y);
  if (!alone.empty()) t_.Place(alone);
  Operand to = M(Class::k32, "xor.b32", {M(Class::k32, "shr.u32", {pair, "2"}), band});
  to = M(Class::k32, "mad.lo.u32", {to, "4", M(Class::k32, "and.b32", {pair, "3"})});
  to = M(Class::k32, "mad.lo.u32", {row, Immediate(kTile / 2), to});
  to = M(Class::k32, "mad.lo.u32", {to, "4", M(Class::k32, "mov.u32", {TileName(b)})});
  for (int k = 0; k < 8; ++k) {
    const auto w = static_cast<std::size_t>(k / 2);
    const Operand both = M(Class::k32, "prmt.b32", {x[w], y[w], k % 2 == 0 ? "0x5410" : "0x7632"});
    t_.Do("st.shared.u32", {Memory(to, std::int64_t{k} * TilePitch(b)), both});
  }
  t_.Place(end);
}

// How much of a vector down a column is there.
void Printer::CountDown(const Operand& from) {
  if (!f_.full) CountLanesTo(rows_, from);
}

// A vector down a column.
void Printer::LoadDown(int b, const Operand& from, const Operand& i, const std::vector<Operand>& to) {
  const DType dtype = buffer(b).dtype;
  const Operand offset = M(Class::k64, "mad.lo.s64", {Wide(i), Size(at_.InnerStride(b)), Wide(from)});
  const Operand base = Past(batch_[static_cast<std::size_t>(b)], b, offset);
  f_.full ? MoveWords(dtype, base, 0, to, "ld.global") : LoadPart(dtype, base, 0, to);
}

// Rows of paired tiles, by whole vectors.
void Printer::LoadPairs() {
  for (int b = 0; b < buffers(); ++b) {
    if (!IsPaired(b)) continue;
    const auto third = [&](const Operand& v) { return M(Class::k32, "shr.u32", {v, "3"}); };
    const Operand group = M(Class::k32, "xor.b32", {third(tile_column_), third(tile_row_)});
    const Operand row =
        M(Class::k32, "mad.lo.u32", {tile_row_, Immediate(TilePitch(b)), M(Class::k32, "mov.u32", {TileName(b)})});
    const Operand from = M(Class::k32, "mad.lo.u32", {group, "16", row});
    tile_words_[b] = NewWords(buffer(b).dtype);
    MoveWords(buffer(b).dtype, from, 0, tile_words_[b], "ld.shared");
  }
}

Operand Printer::TileElement(int b, int k) {
  const DType dtype = buffer(b).dtype;
  if (IsPaired(b)) return FromWords(dtype, tile_words_.at(b), k);
  const Operand row =
      M(Class::k32, "mad.lo.u32", {tile_row_, Immediate(TilePitch(b)), M(Class::k32, "mov.u32", {TileName(b)})});
  const Operand from = M(Class::k32, "mad.lo.u32", {tile_column_, Immediate(ElementSize(dtype)), row});
  return FromRaw(dtype, M(RawClass(dtype), StrCat("ld.shared", MemorySuffix(dtype)),
                          {Memory(from, std::int64_t{k} * ElementSize(dtype))}));
}

}  // namespace framefuse::emit::ptx
