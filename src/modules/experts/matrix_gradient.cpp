#include "modules/experts/matrix_gradient.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace kha {
namespace {

at::Tensor fresh(const at::Tensor& matrices, const Assignment& assignment) {
  at::Tensor gradient = at::empty_like(matrices.detach());
  for (int64_t e = 0; e < assignment.experts(); ++e) {
    if (assignment.count(e) == 0) gradient.select(0, e).zero_();
  }
  return gradient;
}

}  // namespace

MatrixGradient::MatrixGradient(bool wanted, const at::Tensor& matrices,
                               const Assignment& assignment) {
  if (!wanted) return;
  in_leaf_ = matrices.is_leaf() && !at::GradMode::is_enabled();
  adds_ = in_leaf_ && matrices.grad().defined();
  sum_ = adds_ ? matrices.grad() : fresh(matrices, assignment);
  if (in_leaf_) matrices.mutable_grad() = sum_;
}

void MatrixGradient::add(const Group& group, const at::Tensor& dy, const at::Tensor& x) const {
  at::Tensor own = sum_.select(0, group.expert);
  if (adds_) {
    own.addmm_(dy.t(), x);
  } else {
    at::mm_out(own, dy.t(), x);
  }
}

}  // namespace kha
