#include "symbolic/attempt/run_plan.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/config.h"
#include "common/logging.h"

namespace framefuse {
namespace {

constexpr const char* kMayRaise = "it may raise, and an input with a history was written before it";

}  // namespace

CaptureOptions RunPlan::Options() const {
  CaptureOptions options;
  options.fx = static_cast<bool>(settings_.fx_backend);
  options.tell_libraries = settings_.tell_libraries;
  options.breaks_at_modes = breaks_at_modes_;
  options.inlined = inlined_;
  options.warning = settings_.raising.get();
  options.values = settings_.values.get();
  options.raising = settings_.raising.get();
  options.looks_at_end = looks_at_end_;
  if (!static_sizes_) options.sizes = settings_.sizes.get();
  // A number that a graph for a callable only hands on makes its sizes no less static.
  const bool dynamic = options.fx || settings_.sizes->mode() != DynamicMode::kNever;
  if (!no_unbacked_ && dynamic) options.unbacked = settings_.unbacked.get();
  if (!stop_) options.break_at = config().break_at;
  // A forced break is wanted before every instruction there is.
  options.all_frames = all_frames_ || config().break_at >= 0;
  if (!stop_) options.refused_node = refused_node_;
  options.why_left = why_left_;
  if (!why_refused_.empty()) options.why_refused = why_refused_;
  return options;
}

void RunPlan::BeginAnew() {
  stop_.reset();
  fallbacks_.clear();
}

void RunPlan::StopAt(const BreakRecord& broke) {
  stop_ = broke.position;
  fallbacks_ = broke.outer_positions;
}

bool RunPlan::StopFurtherOut() {
  if (fallbacks_.empty()) return false;
  stop_ = fallbacks_.front();
  fallbacks_.erase(fallbacks_.begin());
  return true;
}

bool RunPlan::Scan() { return !std::exchange(scanned_, true); }

void RunPlan::TakeStaticSizes() { takes_no_symbols_ = static_sizes_ = no_unbacked_ = true; }

void RunPlan::StartOverWithoutUnbacked() {
  no_unbacked_ = true;
  scanned_ = false;
  static_sizes_ = takes_no_symbols_;
  BeginAnew();
}

bool RunPlan::TryWithoutSymbols(const AttemptFound& found) {
  if (takes_no_symbols_) return false;
  if (found.symbolic && !broke_with_symbols_) {
    broke_with_symbols_ = found.broke->position;
    static_sizes_ = true;
    fixes_arrays_ = found.only_arrays;
    FF_LOG(kDynamic) << "with symbolic sizes it breaks, and is tried without any: " << found.broke->reason.Text();
    return true;
  }
  // There is a break either way: one graph for what is in the arrays now is no better.
  if (std::exchange(fixes_arrays_, false) && static_sizes_ && !stop_) {
    static_sizes_ = false;
    return true;
  }
  // The two runs may have gone two ways: what follows from symbols is not known to both.
  const bool same = static_sizes_ && !stop_ && broke_with_symbols_ == found.broke->position;
  if (same) static_sizes_ = false;
  return false;
}

bool RunPlan::EndBefore(int node) {
  refused_node_ = refused_node_ < 0 ? node : std::min(node, refused_node_ - 1);
  return refused_node_ >= 0;
}

void RunPlan::EndBeforeError() { why_refused_ = kMayRaise; }

bool RunPlan::HearDueWarnings() { return !std::exchange(hears_due_warnings_, true); }

bool RunPlan::Inline(const RefOf<PyCodeObject>& code) {
  if (absl::c_any_of(inlined_, [&](const auto& known) { return known.get() == code.get(); })) return false;
  inlined_.push_back(code);
  return true;
}

}  // namespace framefuse
