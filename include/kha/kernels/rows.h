// Matrices as kernels see them: a pointer, sizes and strides. They own nothing.
#pragma once

#include <cstdint>

namespace kha {

// `count` rows of `width` adjacent values; row r starts at data + r * stride (stride in values, so
// a slice of a wider matrix needs no copy). Row indices are not checked.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t count = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;

  T* operator[](std::int64_t row) const { return data + row * stride; }
  operator Rows<const T>() const { return {data, count, width, stride}; }
};

// Rows that lie one after the other.
template <class T>
Rows<T> adjacent_rows(T* data, std::int64_t count, std::int64_t width) {
  return {data, count, width, width};
}

// The rows of a tensor [outer, heads, D] whose two leading strides are free (in values): row r is
// head r % heads at outer position r / heads, D adjacent values.
struct HeadView {
  const float* data = nullptr;
  std::int64_t heads = 1;
  std::int64_t outer_stride = 0;
  std::int64_t head_stride = 0;
};

}  // namespace kha
