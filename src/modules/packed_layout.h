// Where the documents of packed rows lie.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kha {

struct PackedLayout {
  // Tokens of each document's part of a row, row by row, B T in all; empty: a row is one text.
  std::vector<int64_t> lengths;
  // Of each token in its document, [B T] int64 on the device; undefined: the place in its row.
  at::Tensor positions_N;
};

}  // namespace kha
