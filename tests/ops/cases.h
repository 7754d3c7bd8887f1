// The parity table: every operator, dtype and layout runs over these shapes.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace kha::test {

// How x lies in memory; its last dimension is adjacent in all of them.
enum class Layout {
  contiguous,
  heads_first,  // [heads, ..., D] in memory
  sliced,       // the middle third of [..., heads, 3 D], NaN around it
};

struct Case {
  std::int64_t heads;
  std::int64_t dim;
  std::vector<std::int64_t> leading;
  Layout layout = Layout::contiguous;
  at::ScalarType dtype = at::kFloat;

  std::string name() const {
    std::ostringstream text;
    text << dtype << " heads " << heads << " dim " << dim << " leading " << at::IntArrayRef(leading)
         << " layout " << static_cast<int>(layout);
    return text.str();
  }
};

// Rows of 0, 1, 17 and an odd product; D of 1, odd, powers of two and one past them.
inline const std::vector<Case> shapes = {
    {1, 1, {1}},   {3, 1, {2, 2}},  {2, 3, {5}},  {4, 8, {0}}, {4, 8, {3, 0, 2}},  {1, 16, {1}},
    {3, 16, {17}}, {2, 17, {3, 5}}, {5, 33, {7}}, {4, 64, {}}, {2, 64, {2, 3, 5}}, {2, 128, {17}},
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (Layout layout : {Layout::contiguous, Layout::heads_first, Layout::sliced}) {
      for (Case shape : shapes) {
        shape.dtype = dtype;
        shape.layout = layout;
        cases.push_back(shape);
      }
    }
  }
  return cases;
}

// The same values in the given layout, for tensors of at least two dimensions.
inline at::Tensor lay_out(const at::Tensor& x, Layout layout) {
  switch (layout) {
    case Layout::contiguous:
      return x.contiguous();
    case Layout::heads_first:
      return x.movedim(-2, 0).contiguous().movedim(0, -2);
    case Layout::sliced: {
      const auto width = x.size(-1);
      auto shape = x.sizes().vec();
      shape.back() = 3 * width;
      at::Tensor wide = at::full(shape, std::numeric_limits<double>::quiet_NaN(), x.options());
      at::Tensor middle = wide.narrow(-1, width, width);
      middle.copy_(x);
      return middle;
    }
  }
  return x;
}

}  // namespace kha::test
