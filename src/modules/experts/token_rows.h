// A sum of rows by token.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha {

// Starts at zero; a narrow type is summed in float32. The order of the sums is that of the calls.
class TokenSum {
 public:
  // A result of x's shape and dtype, [N, d].
  explicit TokenSum(const at::Tensor& like_Nd);
  // sum[tokens[i]] += rows[i]; no token twice. tokens: [n] int64; rows: [n, d].
  void add(const at::Tensor& tokens_n, const at::Tensor& rows_nd);
  at::Tensor result() const { return sum_.to(type_); }

 private:
  at::ScalarType type_;
  at::Tensor sum_;
};

}  // namespace kha
