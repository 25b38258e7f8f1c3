// RecordingErrors: why a recording cannot go on, and what operators have raised in it.
// Invariant: the first break stays: what follows it comes of it.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDING_ERRORS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDING_ERRORS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>

#include "symbolic/tracing/break.h"

namespace framefuse::tracing {

class RecordingErrors {
 public:
  void SetBreak(TensorBreak b);
  const std::optional<TensorBreak>& pending_break() const { return pending_break_; }
  // An error that came out of an operator.
  void Note(const c10::OperatorHandle& handle, const c10::Error& error);
  void Forget() { last_.clear(); }
  const std::string& last() const { return last_; }

 private:
  std::optional<TensorBreak> pending_break_;
  std::string last_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDING_ERRORS_H_
