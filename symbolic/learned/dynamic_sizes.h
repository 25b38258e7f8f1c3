// DynamicSizes: which sizes and strides of a compiled object's inputs, and which integers, its captures take for
// symbolic: all, or
// those that a guard found changed. Invariant: a place that was noted stays noted, so that the next capture is at least
// as general.
#ifndef FRAMEFUSE_SYMBOLIC_LEARNED_DYNAMIC_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_LEARNED_DYNAMIC_SIZES_H_

#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace framefuse {

// compile(dynamic=…): sizes that changed, none, all. kNumbers: of numbers those that changed, of sizes none. A backend
// in Python that takes no symbols gets graphs that no such number is in.
enum class DynamicMode : std::uint8_t { kWhatChanged, kNever, kAll, kNumbers };

// Dimensions by bit.
using DimMask = std::uint32_t;
inline constexpr int kMostDims = 32;

class DynamicSizes {
 public:
  explicit DynamicSizes(DynamicMode mode) : mode_(mode) {}

  DynamicMode mode() const { return mode_; }
  bool learns_numbers() const { return mode_ == DynamicMode::kWhatChanged || mode_ == DynamicMode::kNumbers; }
  bool takes_sizes() const { return mode_ == DynamicMode::kWhatChanged || mode_ == DynamicMode::kAll; }
  // `source`: the text of where the tensor comes from, in a frame of `code`.
  void Note(const PyCodeObject* code, const std::string& source, int dim);
  DimMask Noted(const PyCodeObject* code, const std::string& source) const;
  void NoteStride(const PyCodeObject* code, const std::string& source, int dim);
  DimMask NotedStrides(const PyCodeObject* code, const std::string& source) const;
  void NoteNumber(const PyCodeObject* code, const std::string& source);
  bool IsNotedNumber(const PyCodeObject* code, const std::string& source) const { return TimesNoted(code, source) > 0; }
  int TimesNoted(const PyCodeObject* code, const std::string& source) const;
  bool any_numbers() const { return !numbers_.empty(); }

 private:
  DynamicMode mode_;
  // By the code's address, which is compared and never read.
  using Place = std::pair<const PyCodeObject*, std::string>;
  absl::flat_hash_map<Place, DimMask> noted_, noted_strides_;
  absl::flat_hash_map<Place, int> numbers_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_LEARNED_DYNAMIC_SIZES_H_
