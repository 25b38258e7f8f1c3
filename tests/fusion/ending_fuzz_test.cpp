// Random graphs whose run is cut into what a recording holds and the end behind it, against ATen operators: the end is
// run twice, as behind two replays, and makes memory of its own each time. FF_FUZZ_ENDINGS: how many (default 60),
// FF_FUZZ_SEED: of the first one. A failure prints its seed and graph.
#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/fusion/ending.h"
#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"
#include "tests/common/fuzz_setting.h"

namespace framefuse {
namespace {

// Products, kernels and row reductions over squares, which are large enough to be made by an end.
class Squares {
 public:
  explicit Squares(unsigned seed) : random_(seed) {}

  std::string Run() {
    text_ = "graph \"fuzz\" functional\n";
    for (int i = 0; i < 3; ++i) {
      squares_.push_back(next_);
      text_ += "input %" + std::to_string(next_) + ": f32[256, 256]" + Storage() + " argument\n";
      ++next_;
    }
    const std::size_t nodes = 3 + Pick(8);
    for (std::size_t n = 0; n < nodes; ++n) Node();
    if (Pick(3) == 0) (void)Turned();
    for (std::size_t k = 0; k < 1 + Pick(3); ++k) Output(squares_[3 + Pick(squares_.size() - 3)]);
    Output(squares_.back());
    if (!turned_.empty()) Output(turned_.back());
    return text_;
  }
  std::size_t Pick(std::size_t n) { return random_() % n; }

 private:
  std::string Any() { return "%" + std::to_string(squares_[Pick(squares_.size())]); }
  void Output(int value) { text_ += "output %" + std::to_string(value) + " user\n"; }
  std::string Define() {
    squares_.push_back(next_);
    const std::string storage = Storage();
    return "%" + std::to_string(next_++) + ": f32[256, 256]" + storage + " = ";
  }
  std::string Storage() const { return "{storage=" + std::to_string(next_) + "}"; }
  // Products may read it.
  std::string Turned() {
    const int of = squares_[Pick(squares_.size())], id = next_++;
    text_ += "%" + std::to_string(id) + ": f32[256, 256]{strides=[1, 256], storage=" + std::to_string(of) +
             "} = aten.t(%" + std::to_string(of) + ")\n";
    turned_.push_back(id);
    return "%" + std::to_string(id);
  }

  void Node() {
    switch (Pick(5)) {
      case 0:
      case 1: {
        const std::string a = Any(), b = Pick(3) == 0 ? Turned() : Any();
        text_ += Define() + "aten.tanh(" + a + ")\n";
        const std::string bounded = "%" + std::to_string(next_ - 1);
        text_ += Define() + "aten.mm(" + bounded + ", " + b + ")\n";
        return;
      }
      case 2: {
        const std::string a = Any(), b = Any();
        text_ += Define() + "aten.mul.Tensor(" + a + ", " + b + ")\n";
        return;
      }
      case 3: {
        const std::string a = Any(), b = Any(), row = "%" + std::to_string(next_++);
        text_ += row + ": f32[256, 1] = aten.amax(" + a + ", [1], True)\n";
        text_ += Define() + "aten.add.Tensor(" + b + ", " + row + ", alpha=1)\n";
        return;
      }
      default: {
        const std::string a = Any();
        text_ += Define() + "aten.sigmoid(" + a + ")\n";
        return;
      }
    }
  }

  std::mt19937 random_;
  std::string text_;
  std::vector<int> squares_, turned_;
  int next_ = 0;
};

std::string Differs(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected, const char* when) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string what = std::string(when) + ": output " + std::to_string(i);
    if (!got[i].defined()) return what + " is missing";
    const double scale = std::max(1.0, expected[i].abs().max().item().toDouble());
    if (!at::allclose(got[i], expected[i], 1e-3, 1e-4 * scale)) return what + " differs";
  }
  return "";
}

// Empty, or why it fails; `endings`: how many there were.
std::string Check(unsigned seed, int* endings) {
  Squares squares(seed);
  const std::string text = squares.Run();
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  if (!graph.ok()) return MessageOf(graph.status()) + "\n" + text;
  BackendOptions options;
  options.mode = "reduce-overhead";
  const auto fused = fusion::FusedExecutable::Create(*graph, options);
  const auto aten = AtenSequence::Create(*graph, {});
  if (!fused.ok() || !aten.ok()) return "cannot be made\n" + text;
  at::manual_seed(seed);
  std::vector<at::Tensor> inputs, expected(graph->outputs.size()), begun(graph->outputs.size());
  for (std::size_t i = 0; i < graph->inputs.size(); ++i) inputs.push_back(at::randn({256, 256}).mul_(0.1));
  std::vector<bool> apart;
  for (std::size_t i = 0; i < begun.size(); ++i) apart.push_back(squares.Pick(4) != 0);
  if (!(*aten)->Run(inputs, {}, absl::MakeSpan(expected)).ok()) return "ATen fails\n" + text;
  std::unique_ptr<Ending> ending;
  if (!(*fused)->RunToEnding(inputs, {}, absl::MakeSpan(begun), apart, &ending).ok()) return "it fails\n" + text;
  if (ending == nullptr) {
    const std::string why = Differs(begun, expected, "without an end");
    return why.empty() ? "" : why + "\n" + text;
  }
  ++*endings;
  std::vector<at::Tensor> first = begun, second = begun;
  if (!ending->Run(inputs, absl::MakeSpan(first)).ok() || !ending->Run(inputs, absl::MakeSpan(second)).ok()) {
    return "the end fails\n" + text;
  }
  std::string why = Differs(first, expected, "first");
  if (why.empty()) why = Differs(second, expected, "second");
  for (std::size_t i = 0; i < first.size() && why.empty(); ++i) {
    if (!begun[i].defined() && first[i].storage().is_alias_of(second[i].storage())) {
      why = "output " + std::to_string(i) + " is in one memory twice";
    }
  }
  return why.empty() ? "" : why + "\n" + text;
}

TEST(FuzzedEndings, AreAsAtenOperators) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 1));
  int endings = 0;
  for (unsigned seed = first; seed < first + static_cast<unsigned>(FuzzSetting("FF_FUZZ_ENDINGS", 60)); ++seed) {
    ASSERT_EQ(Check(seed, &endings), "") << "FF_FUZZ_SEED=" << seed;
  }
  EXPECT_GT(endings, 10);
}

}  // namespace
}  // namespace framefuse
