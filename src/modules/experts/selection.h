// The experts of a token, and the tokens of an expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kha {

// Of each row the columns of its k largest values, the largest first; of equal values the lower
// column, on every machine and thread count. A value that is no number counts as the largest, so
// that it is seen in the result. values: [N, E] -> [N, k] int64.
at::Tensor largest_columns(const at::Tensor& values_NE, int64_t k);

// The pairs of token and expert, expert by expert; within one expert in the order of the tokens, so
// no token twice.
struct Assignment {
  // Pairs begin[e] .. begin[e + 1] - 1 are those of expert e; E + 1 numbers.
  std::vector<int64_t> begin;
  // Of each of the M = N k pairs: its token, and its place in a tensor of [N, k]; int64 on the
  // device of the choice.
  at::Tensor tokens_M, places_M;

  int64_t experts() const { return static_cast<int64_t>(begin.size()) - 1; }
  int64_t count(int64_t expert) const { return begin[expert + 1] - begin[expert]; }
  int64_t pairs() const { return begin.back(); }
};

// chosen: [N, k] int64, experts 0 .. E - 1.
Assignment by_expert(const at::Tensor& chosen_Nk, int64_t experts);

}  // namespace kha
