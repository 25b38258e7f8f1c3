// A package of one weight and one symbolic size: tanh(x + bias).
#ifndef FRAMEFUSE_TESTS_PACKAGE_SMALL_PACKAGE_H_
#define FRAMEFUSE_TESTS_PACKAGE_SMALL_PACKAGE_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include "backends/package/loaded_package.h"

namespace framefuse {

inline constexpr char kGraph[] =
    "graph \"test\"\n"
    "symbol s0 = 4 min=1\n"
    "input %0: f32[s0, 3] argument \"x\"\n"
    "input %1: f32[3] parameter \"bias\"\n"
    "%2: f32[s0, 3] = aten.add.Tensor(%0, %1, alpha=1)\n"
    "%3: f32[s0, 3] = aten.tanh(%2)\n"
    "output %3 user\n";

inline Package Small() {
  Package package;
  package.texts = {{package_texts::kGraph, kGraph},
                   {package_texts::kSymbols, "s0 0 0"},
                   {package_texts::kResults, "0"},
                   {package_texts::kFacts, "s0 < 9\n"}};
  package.weights.emplace("bias", at::arange(3, at::kFloat));
  return package;
}

inline at::Tensor Expected(const at::Tensor& x) { return x.add(at::arange(3, at::kFloat)).tanh(); }

}  // namespace framefuse

#endif  // FRAMEFUSE_TESTS_PACKAGE_SMALL_PACKAGE_H_
