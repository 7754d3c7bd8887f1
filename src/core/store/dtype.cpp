#include "kha/core/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "kha/core/error.h"

static_assert(std::endian::native == std::endian::little, "tensor bytes are little-endian");

namespace kha {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

// In the order of the enumeration, so that a dtype is its own index.
constexpr std::array rows{
    Row{DType::f64, "F64", 8},         Row{DType::f32, "F32", 4},
    Row{DType::f16, "F16", 2},         Row{DType::bf16, "BF16", 2},
    Row{DType::f8_e4m3, "F8_E4M3", 1}, Row{DType::f8_e5m2, "F8_E5M2", 1},
    Row{DType::f8_e8m0, "F8_E8M0", 1}, Row{DType::c64, "C64", 8},
    Row{DType::i64, "I64", 8},         Row{DType::i32, "I32", 4},
    Row{DType::i16, "I16", 2},         Row{DType::i8, "I8", 1},
    Row{DType::u64, "U64", 8},         Row{DType::u32, "U32", 4},
    Row{DType::u16, "U16", 2},         Row{DType::u8, "U8", 1},
    Row{DType::boolean, "BOOL", 1},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

const Row& row_of(DType dtype) { return rows[static_cast<std::size_t>(dtype)]; }

[[noreturn]] void fail_not_convertible(DType dtype) {
  fail({.what = "cannot convert elements of type " + std::string(safetensors_name(dtype)),
        .expected = "F64, F32, F16 or BF16",
        .found = std::string(safetensors_name(dtype)),
        .next = "convert the tensor to one of these types first"});
}

// A 16-bit float: 1 sign bit, `exponent_bits`, `fraction_bits`.
struct Half {
  static constexpr int exponent_bits = 5, fraction_bits = 10;
};
struct Brain {
  static constexpr int exponent_bits = 8, fraction_bits = 7;
};

template <class Format>
struct Layout {
  static constexpr int fraction_bits = Format::fraction_bits;
  static constexpr int bias = (1 << (Format::exponent_bits - 1)) - 1;
  static constexpr std::uint16_t infinity =
      static_cast<std::uint16_t>(((1 << Format::exponent_bits) - 1) << fraction_bits);
};

// A NaN keeps its sign and the upper bits of its payload, and is made quiet.
template <class Format>
std::uint16_t narrow_nan(std::uint64_t fraction) {
  using L = Layout<Format>;
  const auto kept = static_cast<std::uint16_t>(fraction >> (52 - L::fraction_bits));
  return static_cast<std::uint16_t>(L::infinity | kept | (1 << (L::fraction_bits - 1)));
}

// From the bits of a double, so that a value is rounded once and never through a float between.
template <class Format>
std::uint16_t narrow_any(double value) {
  using L = Layout<Format>;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) return sign | (fraction ? narrow_nan<Format>(fraction) : L::infinity);
  const int target = exponent - 1023 + L::bias;  // biased exponent in the narrow format
  if (target > 2 * L::bias) return sign | L::infinity;
  // Subnormal results lose one more bit for each step below the smallest normal exponent.
  const int shift = 52 - L::fraction_bits + (target < 1 ? 1 - target : 0);
  if (shift > 53 || exponent == 0) return sign;  // under half of the smallest subnormal
  const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
  std::uint64_t kept = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // Added, not or-ed: the hidden bit and a carry out of the fraction raise the exponent.
  const int base = target < 1 ? 0 : target - 1;
  return static_cast<std::uint16_t>(
      sign | ((static_cast<std::uint64_t>(base) << L::fraction_bits) + kept));
}

// The same for what weights are: a result that is neither subnormal nor above the largest finite
// value before it is rounded. The carry of the rounding goes into the exponent as it should.
template <class Format>
std::uint16_t narrow(double value) {
  using L = Layout<Format>;
  constexpr int shift = 52 - L::fraction_bits;
  constexpr std::uint64_t one = std::uint64_t{1} << 52;
  constexpr std::uint64_t smallest = std::uint64_t{1023 - L::bias + 1} * one;
  constexpr std::uint64_t beyond = std::uint64_t{1023 + L::bias + 1} * one;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  if (magnitude < smallest || magnitude >= beyond) return narrow_any<Format>(value);
  const std::uint64_t placed = magnitude - std::uint64_t{1023 - L::bias} * one;
  const std::uint64_t below_half = (std::uint64_t{1} << (shift - 1)) - 1;
  const std::uint64_t rounded = (placed + below_half + ((placed >> shift) & 1)) >> shift;
  return static_cast<std::uint16_t>(((bits >> 48) & 0x8000) | rounded);
}

float widen_brain(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float widen_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero or subnormal, exact
  return sign ? -magnitude : magnitude;
}

template <class Stored, class Out, class Convert>
std::vector<Out> read_all(std::span<const std::byte> bytes, Convert convert) {
  std::vector<Out> out(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Out>(convert(stored));
  }
  return out;
}

template <class Out>
std::vector<Out> read_as(DType dtype, std::span<const std::byte> bytes) {
  if (!is_convertible(dtype)) fail_not_convertible(dtype);
  if (bytes.size() % size_of(dtype) != 0) {
    fail({.what = "the byte count is no whole number of elements",
          .expected = "a multiple of " + std::to_string(size_of(dtype)) + " for " +
                      std::string(safetensors_name(dtype)),
          .found = std::to_string(bytes.size()) + " bytes"});
  }
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case DType::f64:
      return read_all<double, Out>(bytes, same);
    case DType::f32:
      return read_all<float, Out>(bytes, same);
    case DType::f16:
      return read_all<std::uint16_t, Out>(bytes, widen_half);
    default:
      return read_all<std::uint16_t, Out>(bytes, widen_brain);
  }
}

template <class Stored, class In, class Convert>
std::vector<std::byte> write_all(std::span<const In> values, Convert convert) {
  std::vector<std::byte> out(values.size() * sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Stored stored = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
  return out;
}

template <class In>
std::vector<std::byte> write_as(DType dtype, std::span<const In> values) {
  switch (dtype) {
    case DType::f64:
      return write_all<double>(values, [](In value) { return static_cast<double>(value); });
    case DType::f32:
      return write_all<float>(values, [](In value) { return static_cast<float>(value); });
    case DType::f16:
      return write_all<std::uint16_t>(values, narrow<Half>);
    case DType::bf16:
      return write_all<std::uint16_t>(values, narrow<Brain>);
    default:
      fail_not_convertible(dtype);
  }
}

}  // namespace

std::size_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view safetensors_name(DType dtype) { return row_of(dtype).name; }

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool is_convertible(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::vector<double> to_doubles(DType dtype, std::span<const std::byte> bytes) {
  return read_as<double>(dtype, bytes);
}

std::vector<float> to_floats(DType dtype, std::span<const std::byte> bytes) {
  return read_as<float>(dtype, bytes);
}

std::vector<std::byte> from_doubles(DType dtype, std::span<const double> values) {
  return write_as(dtype, values);
}

std::vector<std::byte> from_floats(DType dtype, std::span<const float> values) {
  return write_as(dtype, values);
}

}  // namespace kha
