// Where the documents of packed rows lie, and which tokens are padding.
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
  // Of every position up to the last, [B, S] bool on the device: false is padding, which nobody
  // sees and whose own result is zero; undefined: all is text.
  at::Tensor text_BS;
};

// Positions [B T] of the last T places of a padded batch: each row counts its text, so that the
// first token of a left-padded row stands at position 0. Those of padding mean nothing.
at::Tensor text_positions(const at::Tensor& text_BS, int64_t queries);

}  // namespace kha
