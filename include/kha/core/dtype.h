// Element types of tensors on disk, and the conversion of raw little-endian bytes to numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kha {

enum class DType {
  // clang-format off
  f64, f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0, c64,
  i64, i32, i16, i8, u64, u32, u16, u8, boolean,
  // clang-format on
};

// Bytes of one element.
std::size_t size_of(DType dtype);

// The spelling of the safetensors format: "F32", "BF16", "BOOL", ...
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

// True for f64, f32, f16 and bf16: the types the conversions below take.
bool is_convertible(DType dtype);

// Raw elements as numbers. `bytes` need not be aligned. Widening is exact; f64 read as float is
// rounded once, to nearest even. Infinities and NaN stay what they are.
// Errors: a dtype that is not convertible, a byte count that is no multiple of the element size.
std::vector<double> to_doubles(DType dtype, std::span<const std::byte> bytes);
std::vector<float> to_floats(DType dtype, std::span<const std::byte> bytes);

// Numbers as raw elements, each rounded once, to nearest even; what lies above the largest finite
// value becomes infinity. Errors: a dtype that is not convertible.
std::vector<std::byte> from_doubles(DType dtype, std::span<const double> values);
std::vector<std::byte> from_floats(DType dtype, std::span<const float> values);

}  // namespace kha
