#include "symbolic/tracing/sized_products.h"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/matmul_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "common/coverage.h"
#include "symbolic/tracing/fake_tensor.h"

namespace framefuse::tracing {
namespace {

using SymInts = std::vector<c10::SymInt>;

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

std::atomic<bool> replaces{TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13};

SymInts ToVector(c10::SymIntArrayRef numbers) { return {numbers.begin(), numbers.end()}; }

c10::SymInt CountOf(const SymInts& sizes) {
  c10::SymInt count = 1;
  for (const c10::SymInt& s : sizes) count = count * s;
  return count;
}

bool HasSymbolicSize(const at::Tensor& t) {
  return AsFake(t) != nullptr &&
         std::any_of(t.sym_sizes().begin(), t.sym_sizes().end(), [](const c10::SymInt& s) { return s.is_symbolic(); });
}

// Whether all rows of the larger one are multiplied at once: that copies nothing there, or else the gradient of the
// smaller one would be a list of matrices. Of no elements both orders give the same.
bool Folds(const at::Tensor& left, const at::Tensor& right) {
  const bool turned = left.dim() < right.dim();
  const at::Tensor &larger = turned ? right : left, &smaller = turned ? left : right;
  if (larger.dim() < 3 || smaller.dim() > 2) return false;
  if (smaller.requires_grad()) return true;
  if (left.dim() == 2) return false;  // its product would have to be turned, and copied for that
  SymInts sizes = ToVector(larger.sym_sizes()), strides = ToVector(larger.sym_strides());
  if (turned) {
    std::swap(sizes.back(), sizes[sizes.size() - 2]);
    std::swap(strides.back(), strides[strides.size() - 2]);
  }
  for (std::size_t i = 0; i + 2 < sizes.size(); ++i) {
    if (strides[i] != strides[i + 1] * sizes[i + 1]) return false;
  }
  return true;
}

at::Tensor MultiplyRows(const at::Tensor& left, const at::Tensor& right) {
  const bool turned = left.dim() < right.dim();
  const at::Tensor rows = turned ? right.mT() : left;
  const at::Tensor other = !turned ? right : left.dim() == 2 ? left.t() : left;
  SymInts sizes = ToVector(rows.sym_sizes());
  const c10::SymInt columns = std::move(sizes.back());
  sizes.pop_back();
  const at::Tensor folded = rows.reshape_symint({CountOf(sizes), columns});
  if (other.dim() == 1) return at::_unsafe_view_symint(folded.mv(other), sizes);
  sizes.push_back(other.sym_size(1));
  const at::Tensor product = at::_unsafe_view_symint(folded.mm(other), sizes);
  return turned ? product.mT().contiguous() : product;
}

// All dimensions but those of the matrix or the vector.
SymInts BatchOf(const at::Tensor& t) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(t.dim() - 2, 0));
  return ToVector(t.sym_sizes().slice(0, count));
}

// Asking a symbolic size would bind the graph to the answer.
bool IsPlainOne(const c10::SymInt& size) { return !size.is_symbolic() && size == 1; }

// The sizes that both are expanded to.
std::optional<SymInts> Broadcast(SymInts a, SymInts b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), c10::SymInt(1));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (IsPlainOne(b[i])) continue;
    if (!IsPlainOne(a[i]) && (a[i] == b[i] || b[i] == 1)) continue;
    if (a[i] != 1) return std::nullopt;
    a[i] = b[i];
  }
  return a;
}

// With `batch` before its own last sizes, of which the first is 1 where it is a vector on the left.
at::Tensor Flattened(const at::Tensor& t, const SymInts& batch, const SymInts& own) {
  SymInts expanded = batch, flat = {CountOf(batch)};
  expanded.insert(expanded.end(), own.begin(), own.end());
  flat.insert(flat.end(), own.begin(), own.end());
  return t.expand_symint(expanded).reshape_symint(flat);
}

std::optional<at::Tensor> MultiplyLists(const at::Tensor& left, const at::Tensor& right) {
  const bool asked = left.requires_grad() || right.requires_grad();
  if (asked && left.dim() == 3 && right.dim() == 3 && left.sym_size(0) != right.sym_size(0)) {
    if (left.requires_grad() && left.sym_size(0) == 1) return MultiplyAsTorch(left.squeeze(0), right);
    if (right.requires_grad() && right.sym_size(0) == 1) return MultiplyAsTorch(left, right.squeeze(0));
  }
  std::optional<SymInts> sizes = Broadcast(BatchOf(left), BatchOf(right));
  if (!sizes) return std::nullopt;
  const bool rows = left.dim() > 1, columns = right.dim() > 1;
  const c10::SymInt height = rows ? left.sym_size(-2) : c10::SymInt(1);
  const at::Tensor first = Flattened(left, *sizes, {height, left.sym_size(-1)});
  at::Tensor second;
  if (columns) {
    second = Flattened(right, *sizes, {right.sym_size(-2), right.sym_size(-1)});
  } else {
    second = Flattened(right, *sizes, {right.sym_size(0)}).unsqueeze(2);
  }
  if (rows) sizes->push_back(height);
  if (columns) sizes->push_back(right.sym_size(-1));
  const at::Tensor product = first.bmm(second);
  return at::_unsafe_view_symint(columns ? product : product.squeeze(-1), *sizes);
}

// Casts for autocast come first: it calls matmul again.
at::Tensor Multiply(c10::DispatchKeySet keys, const at::Tensor& left, const at::Tensor& right) {
  const bool casts = keys.has_any(c10::autocast_dispatch_keyset);
  if (!casts && (HasSymbolicSize(left) || HasSymbolicSize(right))) {
    if (std::optional<at::Tensor> product = MultiplyAsTorch(left, right)) {
      if (CountsKinds()) CountKind("decomposition", "matmul of symbolic sizes", true);
      return *std::move(product);
    }
  }
  return at::_ops::matmul::redispatch(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), left, right);
}

void Install() {
  static const bool installed = [] {
    // Never destroyed: deregistration at exit would race with torch's own.
    static auto* all = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    all->fallback(torch::CppFunction::makeFallthrough());
    static auto* aten = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    aten->impl("matmul", Multiply);
    return true;
  }();
  (void)installed;
}

}  // namespace

void ReplaceSizedProducts(bool replace) { replaces = replace; }

std::optional<at::Tensor> MultiplyAsTorch(const at::Tensor& left, const at::Tensor& right) {
  if (left.dim() == 0 || right.dim() == 0 || std::max(left.dim(), right.dim()) < 3) return std::nullopt;
  return Folds(left, right) ? MultiplyRows(left, right) : MultiplyLists(left, right);
}

SizedProductsScope::SizedProductsScope(bool recording) : previous_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  const bool on = recording && replaces;
  if (on) Install();
  c10::impl::tls_set_dispatch_key_included(kKey, on);
}

SizedProductsScope::~SizedProductsScope() { c10::impl::tls_set_dispatch_key_included(kKey, previous_); }

}  // namespace framefuse::tracing
