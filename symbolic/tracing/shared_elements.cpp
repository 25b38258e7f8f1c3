#include "symbolic/tracing/shared_elements.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace framefuse::tracing {
namespace {

// stride * k for a k from `first` to `last`.
struct Term {
  std::int64_t stride, first, last;
};

// Whether a sum of one multiple of each stride is `distance`. Terms come with falling strides, so that few multiples
// leave a rest that the others can make.
class Search {
 public:
  explicit Search(std::vector<Term> terms) : terms_(std::move(terms)), least_(terms_.size() + 1), most_(least_) {
    for (std::size_t i = terms_.size(); i-- > 0;) {
      least_[i] = least_[i + 1] + terms_[i].stride * terms_[i].first;
      most_[i] = most_[i + 1] + terms_[i].stride * terms_[i].last;
    }
  }

  bool Reaches(std::int64_t distance) { return From(0, distance); }

 private:
  bool From(std::size_t i, std::int64_t rest) {
    if (rest < least_[i] || rest > most_[i]) return false;
    if (i == terms_.size() || ++steps_ > kMostSteps) return true;
    const Term& t = terms_[i];
    for (std::int64_t k = std::max(t.first, (rest - most_[i + 1]) / t.stride - 1); k <= t.last; ++k) {
      if (rest - k * t.stride < least_[i + 1]) break;
      if (From(i + 1, rest - k * t.stride)) return true;
    }
    return false;
  }

  static constexpr int kMostSteps = 10'000;  // past them the answer is yes
  std::vector<Term> terms_;
  std::vector<std::int64_t> least_, most_;
  int steps_ = 0;
};

struct Extent {
  std::int64_t offset;
  std::map<std::int64_t, std::int64_t, std::greater<>> sizes;  // by stride: how many further elements
  bool empty;
};

// In bytes.
Extent ExtentOf(const ir::ExprTable& exprs, const ir::Value& v) {
  const std::int64_t bytes = BytesOf(v);
  Extent extent{exprs.Hint(v.offset) * bytes, {}, false};
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    const std::int64_t size = exprs.Hint(v.sizes[d]), stride = exprs.Hint(v.strides[d]) * bytes;
    extent.empty = extent.empty || size == 0;
    if (size > 1 && stride > 0) extent.sizes[stride] += size - 1;
  }
  return extent;
}

}  // namespace

std::int64_t BytesOf(const ir::Value& v) { return static_cast<std::int64_t>(c10::elementSize(v.dtype)); }

bool ShareElements(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b) {
  const Extent of_a = ExtentOf(exprs, a), of_b = ExtentOf(exprs, b);
  if (of_a.empty || of_b.empty) return false;
  std::map<std::int64_t, Term, std::greater<>> terms;
  const auto term = [&](std::int64_t stride) -> Term& {
    return terms.try_emplace(stride, Term{stride, 0, 0}).first->second;
  };
  for (const auto& [stride, more] : of_a.sizes) term(stride).last += more;
  for (const auto& [stride, more] : of_b.sizes) term(stride).first -= more;
  if (BytesOf(a) != BytesOf(b)) {
    term(1).last += BytesOf(a) - 1;
    term(1).first -= BytesOf(b) - 1;
  }
  std::vector<Term> list;
  list.reserve(terms.size());
  for (const auto& [stride, term] : terms) list.push_back(term);
  return Search(std::move(list)).Reaches(of_b.offset - of_a.offset);
}

}  // namespace framefuse::tracing
