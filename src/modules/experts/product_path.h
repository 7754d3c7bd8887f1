// Which products the routed experts go through.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

namespace kha {

enum class ProductPath {
  shared,   // on the CPU: threads share the experts
  in_turn,  // one expert after the other
  grouped,  // torch's grouped product, all experts in one call
};

// What decides. Widths: d of the model, f of one expert.
struct ProductFacts {
  c10::DeviceType device;
  c10::ScalarType type;
  int64_t hidden, width;
};

// grouped on CUDA in bfloat16 where rows are multiples of 16 bytes, as torch asks; which kernel
// serves it there (or a loop, before sm_90) is torch's choice.
constexpr ProductPath choose_product_path(const ProductFacts& facts) {
  if (facts.device == c10::DeviceType::CPU) return ProductPath::shared;
  const bool aligned = facts.hidden % 8 == 0 && facts.width % 8 == 0;
  const bool grouped =
      facts.device == c10::DeviceType::CUDA && facts.type == c10::ScalarType::BFloat16 && aligned;
  return grouped ? ProductPath::grouped : ProductPath::in_turn;
}

// As reports print it.
constexpr std::string_view to_string(ProductPath path) {
  switch (path) {
    case ProductPath::shared:
      return "experts shared by threads";
    case ProductPath::in_turn:
      return "one expert after the other";
    case ProductPath::grouped:
      return "aten::_grouped_mm";
  }
  return {};
}

}  // namespace kha
