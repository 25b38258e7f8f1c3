// Random graphs through the fused executable and through ATen operators. FF_FUZZ_GRAPHS: how many (default 200),
// FF_FUZZ_SEED: of the first one. A failure prints its seed and graph.
#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"
#include "tests/common/fuzz_setting.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

using Shape = std::vector<std::int64_t>;

std::string Text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) out += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return out + "]";
}

// Writes a graph over one full shape, its broadcast forms and its reductions.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {
    const std::size_t rank = 1 + Pick(3);
    constexpr std::int64_t kExtents[] = {1, 2, 3, 7, 8, 9, 17, 33, 70};
    for (std::size_t d = 0; d < rank; ++d) full_.push_back(kExtents[Pick(std::size(kExtents))]);
  }

  std::string Run() {
    text_ = "graph \"fuzz\" functional\n";
    const int inputs = 1 + static_cast<int>(Pick(4));
    for (int i = 0; i < inputs; ++i) {
      Shape shape = full_;
      if (i > 0) {
        for (std::int64_t& d : shape) d = Pick(4) == 0 ? 1 : d;
      }
      text_ += "input %" + std::to_string(next_) + ": f32" + Text(shape) + Strides(shape) + " argument\n";
      Add(shape);
    }
    const int nodes = 2 + static_cast<int>(Pick(14));
    for (int n = 0; n < nodes; ++n) Node();
    for (std::size_t k = 0; k < 1 + Pick(3); ++k)
      text_ += "output %" + std::to_string(Pick(values_.size())) + " user\n";
    text_ += "output %" + std::to_string(values_.size() - 1) + " user\n";
    return text_;
  }

 private:
  std::size_t Pick(std::size_t n) { return random_() % n; }
  void Add(Shape shape) {
    values_.push_back(std::move(shape));
    ++next_;
  }

  // Now and then the last two dimensions lie transposed in memory.
  std::string Strides(const Shape& shape) {
    if (shape.size() < 2 || Pick(3) != 0) return "";
    Shape strides(shape.size());
    std::int64_t step = 1;
    std::vector<std::size_t> order(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) order[d] = shape.size() - 1 - d;
    std::swap(order[0], order[1]);
    for (std::size_t d : order) {
      strides[d] = step;
      step *= shape[d];
    }
    return "{strides=" + Text(strides) + "}";
  }

  std::string Define(const Shape& shape) { return "%" + std::to_string(next_) + ": f32" + Text(shape) + " = "; }
  static std::string Use(std::size_t v) { return "%" + std::to_string(v); }

  void Node() {
    const std::size_t a = Pick(values_.size()), b = Pick(values_.size());
    switch (Pick(8)) {
      case 0:
      case 1:
      case 2:
        return Binary(a, b);
      case 3:
        return Reduce(a);
      case 4:
        return Softmax(a);
      default:
        return Unary(a);
    }
  }

  void Unary(std::size_t a) {
    constexpr const char* kOps[] = {"sin", "tanh", "sigmoid", "relu", "neg", "abs", "silu", "exp", "erf"};
    const Shape shape = values_[a];
    const char* op = kOps[Pick(std::size(kOps))];
    if (std::string(op) == "exp") {
      // Of large numbers one rounding of exp is large for sin.
      text_ += Define(shape) + "aten.tanh(" + Use(a) + ")\n";
      Add(shape);
      a = values_.size() - 1;
    }
    text_ += Define(shape) + "aten." + op + "(" + Use(a) + ")\n";
    Add(shape);
  }

  void Binary(std::size_t a, std::size_t b) {
    constexpr const char* kOps[] = {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.maximum"};
    Shape x = values_[a], y = values_[b];
    if (x.size() != y.size()) return Unary(a);
    for (std::size_t d = 0; d < x.size(); ++d) {
      if (x[d] != y[d] && x[d] != 1 && y[d] != 1) return Unary(a);
      x[d] = std::max(x[d], y[d]);
    }
    const std::size_t op = Pick(std::size(kOps));
    text_ += Define(x) + kOps[op] + "(" + Use(a) + ", " + Use(b) + (op < 2 ? ", alpha=1)\n" : ")\n");
    Add(x);
  }

  // Of an input: which of two computed numbers is larger may be a matter of rounding.
  void Index() {
    Shape shape = full_;
    const std::size_t dim = Pick(shape.size());
    shape[dim] = 1;
    const std::string index = "%index" + std::to_string(next_), op = Pick(2) == 0 ? "argmax" : "argmin";
    text_ += index + ": i64" + Text(shape) + " = aten." + op + "(%0, " + std::to_string(dim) + ", True)\n";
    text_ += Define(shape) + "aten._to_copy(" + index + ", dtype=f32)\n";
    Add(shape);
  }

  void Reduce(std::size_t a) {
    if (Pick(4) == 0) return Index();
    Shape shape = values_[a];
    const std::size_t begin = Pick(shape.size()), end = begin + 1 + Pick(shape.size() - begin);
    Shape dims;
    std::int64_t terms = 1;
    for (std::size_t d = begin; d < end; ++d) {
      dims.push_back(static_cast<std::int64_t>(d));
      terms *= shape[d];
      shape[d] = 1;
    }
    constexpr const char* kOps[] = {"sum.dim_IntList", "amax", "mean.dim"};
    const std::size_t op = Pick(std::size(kOps));
    if (op == 0) {
      // A sum's error grows with its terms, and sin of it would show it whole.
      text_ += Define(values_[a]) + "aten.mul.Scalar(" + Use(a) + ", " +
               std::to_string(1.0 / static_cast<double>(terms)) + ")\n";
      Add(values_[a]);
      a = values_.size() - 1;
    }
    text_ += Define(shape) + "aten." + kOps[op] + "(" + Use(a) + ", " + Text(dims) + ", True)\n";
    Add(shape);
  }

  void Softmax(std::size_t a) {
    const Shape shape = values_[a];
    text_ += Define(shape) + "aten._softmax(" + Use(a) + ", -1, False)\n";
    Add(shape);
  }

  std::mt19937 random_;
  Shape full_;
  std::string text_;
  std::vector<Shape> values_;
  int next_ = 0;
};

// Empty, or why the graph fails.
std::string Check(const std::string& text, unsigned seed) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  if (!graph.ok()) return MessageOf(graph.status());
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  if (!fused.ok()) return MessageOf(fused.status());
  auto aten = AtenSequence::Create(*graph, {});
  if (!aten.ok()) return MessageOf(aten.status());
  at::manual_seed(seed);
  std::vector<at::Tensor> inputs, wide;
  for (const ir::Input& input : graph->inputs) {
    const ir::Value& v = graph->value(input.value);
    std::vector<std::int64_t> sizes, strides;
    std::int64_t n = 1;
    for (const ir::Dim& d : v.sizes) sizes.push_back(d.constant()), n *= d.constant();
    for (const ir::Dim& d : v.strides) strides.push_back(d.constant());
    inputs.push_back(at::randn({n}).as_strided(sizes, strides));
  }
  std::vector<at::Tensor> a(graph->outputs.size()), b(graph->outputs.size());
  if (absl::Status s = (*fused)->Run(inputs, {}, absl::MakeSpan(a)); !s.ok()) return MessageOf(s);
  if (absl::Status s = (*aten)->Run(inputs, {}, absl::MakeSpan(b)); !s.ok()) return "";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes()) return "sizes of output " + std::to_string(i);
    const double scale = b[i].abs().max().item().toDouble();
    if (!at::allclose(a[i], b[i], 1e-4, 1e-5 * std::max(1.0, scale), true)) {
      return "output " + std::to_string(i) + " differs by " +
             std::to_string(a[i].sub(b[i]).abs().max().item().toDouble());
    }
  }
  return "";
}

void ExpectNoMismatch(int count) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 1));
  int failures = 0;
  for (unsigned seed = first; seed < first + static_cast<unsigned>(count); ++seed) {
    const std::string text = Generator(seed).Run();
    const std::string why = Check(text, seed);
    EXPECT_EQ(why, "") << "FF_FUZZ_SEED=" << seed << "\n" << text;
    failures += why.empty() ? 0 : 1;
    if (failures >= 3) break;
  }
}

TEST(Fuzz, FusedEqualsAten) { ExpectNoMismatch(FuzzSetting("FF_FUZZ_GRAPHS", 1000)); }

// The CUDA text of the same graphs, run on the CPU. A graph costs a run of the host's compiler.
TEST(Fuzz, EmulatedCudaEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  ExpectNoMismatch(FuzzSetting("FF_FUZZ_EMULATED_GRAPHS", 5));
  cuda::SetEngineForTesting(nullptr);
}

// PTX costs none: only what is not printed in PTX needs the compiler.
TEST(Fuzz, EmulatedPtxEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  int printed = 0;
  cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
  ExpectNoMismatch(FuzzSetting("FF_FUZZ_EMULATED_GRAPHS", 40));
  EXPECT_GT(printed, 0);
  cuda::SetEngineForTesting(nullptr);
}

}  // namespace
}  // namespace framefuse
