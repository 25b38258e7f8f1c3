// Storage and compute types of kernels.
// A DType is what memory holds; a Type is what a lane of the vector IR computes in. Halves are computed in
// f32, the small integers in i32 (wrapped to their width after arithmetic), bool as a predicate.
#ifndef FRAMEFUSE_BACKENDS_KERNEL_IR_TYPES_H_
#define FRAMEFUSE_BACKENDS_KERNEL_IR_TYPES_H_

#include <cstdint>
#include <string_view>

namespace framefuse::kernel_ir {

enum class DType : std::uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };
enum class Type : std::uint8_t { kPred, kI32, kI64, kF32, kF64 };

constexpr int ElementSize(DType dtype) {
  constexpr int kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<int>(dtype)];
}

constexpr Type ComputeType(DType dtype) {
  constexpr Type kTypes[] = {Type::kPred, Type::kI32, Type::kI32, Type::kI32, Type::kI32,
                             Type::kI64,  Type::kF32, Type::kF32, Type::kF32, Type::kF64};
  return kTypes[static_cast<int>(dtype)];
}

constexpr bool IsFloat(Type type) { return type == Type::kF32 || type == Type::kF64; }
constexpr bool IsInt(Type type) { return type == Type::kI32 || type == Type::kI64; }
constexpr bool Is64Bit(Type type) { return type == Type::kI64 || type == Type::kF64; }

constexpr std::string_view Name(DType dtype) {
  constexpr std::string_view kNames[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<int>(dtype)];
}
constexpr std::string_view Name(Type type) {
  constexpr std::string_view kNames[] = {"pred", "i32", "i64", "f32", "f64"};
  return kNames[static_cast<int>(type)];
}

}  // namespace framefuse::kernel_ir

#endif  // FRAMEFUSE_BACKENDS_KERNEL_IR_TYPES_H_
