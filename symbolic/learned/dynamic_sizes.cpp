#include "symbolic/learned/dynamic_sizes.h"

namespace framefuse {

void DynamicSizes::Note(const PyCodeObject* code, const std::string& source, int dim) {
  if (takes_sizes() && dim < kMostDims) noted_[{code, source}] |= DimMask{1} << dim;
}

void DynamicSizes::NoteNumber(const PyCodeObject* code, const std::string& source) {
  if (mode_ != DynamicMode::kNever) ++numbers_[{code, source}];
}

int DynamicSizes::TimesNoted(const PyCodeObject* code, const std::string& source) const {
  const auto found = numbers_.find({code, source});
  return found == numbers_.end() ? 0 : found->second;
}

DimMask DynamicSizes::Noted(const PyCodeObject* code, const std::string& source) const {
  const auto found = noted_.find({code, source});
  return found == noted_.end() ? 0 : found->second;
}

void DynamicSizes::NoteStride(const PyCodeObject* code, const std::string& source, int dim) {
  if (takes_sizes() && dim < kMostDims) noted_strides_[{code, source}] |= DimMask{1} << dim;
}

DimMask DynamicSizes::NotedStrides(const PyCodeObject* code, const std::string& source) const {
  const auto found = noted_strides_.find({code, source});
  return found == noted_strides_.end() ? 0 : found->second;
}

}  // namespace framefuse
