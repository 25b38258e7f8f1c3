#include "guards/counting_program.h"

#include <string_view>
#include <utility>

#include "common/coverage.h"
#include "guards/kinds.h"
#include "guards/leaf/global_state.h"

namespace framefuse {
namespace {

constexpr const char* kFamily = "guard";
// What of a tensor or of torch's state failed, by the first words of the explanation: "size", "grad mode" …
constexpr const char* kPartFamily = "part of a guard";

const bool declared = [] {
  for (const GuardKindRow& row : GuardKinds()) DeclareKinds(kFamily, {row.name});
  for (std::string_view part : GlobalStateParts())
    DeclareKinds(kPartFamily, {std::string("state: ").append(part).c_str()});
  return DeclareKinds(
      kPartFamily, {"tensor: type", "tensor: dtype", "tensor: device", "tensor: rank", "tensor: size", "tensor: stride",
                    "tensor: storage offset", "tensor: requires_grad", "tensor: is_leaf", "tensor: gradient hooks",
                    "tensor: dispatch keys", "tensor: missing"});
}();

void CountPart(GuardKind kind, std::string_view why) {
  const bool of_tensor = kind == GuardKind::kTensor;
  if (why.empty() || (!of_tensor && kind != GuardKind::kGlobalState)) return;
  const std::size_t end = why.find(of_tensor ? " mismatch" : ":");
  const std::string_view part = of_tensor && end == std::string_view::npos ? "missing" : why.substr(0, end);
  CountKind(kPartFamily, std::string(of_tensor ? "tensor: " : "state: ").append(part), true);
}

class CountingProgram final : public GuardProgram {
 public:
  explicit CountingProgram(std::unique_ptr<CompiledProgram> inner) : inner_(std::move(inner)) {}

  bool Check(const FrameView& frame, ResolvedSources* resolved) const noexcept override {
    const bool holds = inner_->Check(frame, resolved);
    if (inner_->IsDead()) return holds;
    bool all_hold = true;
    TellGuards(inner_->image(), frame, [&](GuardKind kind, std::string_view why) {
      CountKind(kFamily, RowOf(kind).name, why.empty());
      CountPart(kind, why);
      all_hold = all_hold && why.empty();
    });
    CountKind("guards agree", "the fast check and the explaining one", holds == all_hold);
    return holds;
  }
  bool IsDead() const override { return inner_->IsDead(); }
  std::string Explain(const FrameView& frame) const override { return inner_->Explain(frame); }
  std::string PythonText(const std::string& name) const override { return inner_->PythonText(name); }
  std::size_t guard_count() const override { return inner_->guard_count(); }
  std::vector<OtherSizes> FindOtherSizes(const FrameView& frame) const override {
    return inner_->FindOtherSizes(frame);
  }

 private:
  std::unique_ptr<CompiledProgram> inner_;
};

}  // namespace

std::unique_ptr<GuardProgram> MakeCountingProgram(std::unique_ptr<CompiledProgram> inner) {
  return std::make_unique<CountingProgram>(std::move(inner));
}

}  // namespace framefuse
