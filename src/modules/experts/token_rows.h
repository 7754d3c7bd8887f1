// A sum of rows by token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace kha {

// Starts at zero; a narrow type is summed in float32.
class TokenSum {
 public:
  // A result of x's shape and dtype, [N, d].
  explicit TokenSum(const at::Tensor& like_Nd);
  // sum[tokens[i]] += rows[i]; no token twice. tokens: [n] int64; rows: [n, d]. Several threads may
  // call it, each place 0, 1, … once: sums run in the order of the places, and rows that come early
  // wait, while who brought them goes on.
  void add(int64_t place, const at::Tensor& tokens_n, const at::Tensor& rows_nd);
  // When every place has been added.
  at::Tensor result() const { return sum_.to(type_); }

 private:
  using Rows = std::pair<at::Tensor, at::Tensor>;
  // The rows whose turn it is; false, and nobody sums, where they are not there yet.
  bool take_next(Rows& rows);
  void sum(const at::Tensor& tokens_n, const at::Tensor& rows_nd);

  at::ScalarType type_;
  at::Tensor sum_;
  std::mutex mutex_;
  std::map<int64_t, Rows> waiting_;
  int64_t next_ = 0;
  bool summing_ = false;
};

}  // namespace kha
