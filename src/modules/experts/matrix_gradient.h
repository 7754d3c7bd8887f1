// The gradient of one matrix of every expert of a layer.
#pragma once

#include <ATen/core/Tensor.h>

#include "modules/experts/expert_groups.h"

namespace kha {

// A leaf takes it where its gradient lies: micro-batches add up in place, and no second gradient of
// this size is ever alive. Of anything else it is a tensor for autograd.
class MatrixGradient {
 public:
  // matrices: [E, out, in]. Where a first gradient's expert has no token, it is zero.
  MatrixGradient(bool wanted, const at::Tensor& matrices, const Assignment& assignment);

  bool wanted() const { return sum_.defined(); }
  // Takes dy^T x of one group, once. dy: [n, out]; x: [n, in].
  void add(const Group& group, const at::Tensor& dy, const at::Tensor& x) const;
  // What autograd is given: undefined where nothing was wanted, or the leaf has it.
  at::Tensor result() const { return in_leaf_ ? at::Tensor() : sum_; }

 private:
  at::Tensor sum_;  // [E, out, in]
  bool adds_ = false, in_leaf_ = false;
};

}  // namespace kha
