#include "ops/validate_layers.h"

#include <c10/util/Exception.h>

#include "kha/ops/head_loss.h"

namespace kha::ops {

void check_head_loss(const char* op, const at::Tensor& hidden, const at::Tensor& weight,
                     const at::Tensor& targets) {
  check_dtype(op, {"hidden", hidden});
  TORCH_CHECK_VALUE(hidden.dim() == 2 && hidden.sym_size(1) > 0, op, ": hidden is ",
                    hidden.sym_sizes(),
                    "; expected [rows, width] with width at least 1;"
                    " flatten batch and time with hidden.flatten(0, -2)");
  const c10::SymInt rows = hidden.sym_size(0), width = hidden.sym_size(1);
  const bool fits = weight.dim() == 2 && weight.sym_size(1) == width && weight.sym_size(0) > 0;
  TORCH_CHECK_VALUE(fits, op, ": weight is ", weight.sym_sizes(),
                    "; expected [vocabulary, width] = [..., ", width,
                    "], the last dimension of hidden ", hidden.sym_sizes(),
                    "; store the head as torch.nn.Linear does");
  check_like(op, {"weight", weight}, {"hidden", hidden});
  TORCH_CHECK_VALUE(has_shape(targets, {rows}), op, ": targets is ", targets.sym_sizes(),
                    "; expected [rows] = [", rows, "], one id for each row of hidden ",
                    hidden.sym_sizes(), "; flatten batch and time with targets.flatten()");
  TORCH_CHECK_VALUE(targets.scalar_type() == at::kLong, op, ": targets is ",
                    dtype_name(targets.scalar_type()),
                    "; expected int64 ids; convert with "
                    "targets.to(torch.int64)");
  check_device(op, {"targets", targets}, {"hidden", hidden});
}

void check_scales(const char* op, const at::Tensor& scales, const at::Tensor& hidden) {
  const c10::SymInt rows = hidden.sym_size(0);
  TORCH_CHECK_VALUE(has_shape(scales, {rows}), op, ": scales is ", scales.sym_sizes(),
                    "; expected [rows] = [", rows, "], one value for each row of hidden ",
                    hidden.sym_sizes(), "; repeat one value with scales.expand(hidden.shape[0])");
  const at::ScalarType dtype = loss_dtype(hidden);
  TORCH_CHECK_VALUE(scales.scalar_type() == dtype, op, ": scales is ",
                    dtype_name(scales.scalar_type()), "; expected ", dtype_name(dtype),
                    ", the dtype of the losses; convert it");
  check_device(op, {"scales", scales}, {"hidden", hidden});
}

void check_target_values(const char* op, const at::Tensor& targets, std::int64_t vocabulary) {
  const at::Tensor outside = targets.lt(0).logical_or_(targets.ge(vocabulary));
  const at::Tensor bad = outside.logical_and_(targets.ne(not_counted));
  if (!bad.any().item<bool>()) return;
  const auto row = bad.nonzero()[0].item<std::int64_t>();
  TORCH_CHECK_VALUE(false, op, ": targets holds ", targets[row].item<std::int64_t>(), " at row ",
                    row, "; expected an id from 0 to ", vocabulary - 1,
                    ", a row of weight, or -100 for a row that is not counted;"
                    " check that tokenizer and model belong together");
}

void check_norm(const char* op, const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_dtype(op, {"x", x});
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.sym_size(-1) > 0, op, ": x is ", x.sym_sizes(),
                    "; expected [..., width] with width at least 1; check the input of the norm");
  const c10::SymInt width = x.sym_size(-1);
  TORCH_CHECK_VALUE(has_shape(weight, {width}), op, ": weight is ", weight.sym_sizes(),
                    "; expected [width] = [", width, "], the last dimension of x ", x.sym_sizes(),
                    "; give one value for each channel");
  check_like(op, {"weight", weight}, {"x", x});
  TORCH_CHECK_VALUE(eps > 0, op, ": eps is ", eps,
                    "; expected more than 0, so that rows of zeros stay finite; 1e-6 is usual");
}

void check_norm_rope(const char* op, const at::Tensor& x, const at::Tensor& weight, double eps,
                     const at::Tensor& cos, const at::Tensor& sin) {
  TORCH_CHECK_VALUE(x.dim() == 4 && x.sym_size(3) % 2 == 0, op, ": x is ", x.sym_sizes(),
                    "; expected [batch, time, heads, head_dim] with an even head_dim;"
                    " split the projection with x.unflatten(-1, (heads, head_dim))");
  check_norm(op, x, weight, eps);
  for (const Named& table : {Named{"cos", cos}, Named{"sin", sin}}) {
    TORCH_CHECK_VALUE(has_shape(table.tensor, {x.sym_size(1), x.sym_size(3)}), op, ": ", table.name,
                      " is ", table.tensor.sym_sizes(), "; expected [time, head_dim] = [",
                      x.sym_size(1), ", ", x.sym_size(3), "] for x ", x.sym_sizes(),
                      "; give one row for each position");
    check_like(op, table, {"x", x});
  }
}

void check_swiglu(const char* op, const at::Tensor& gate, const at::Tensor& up) {
  check_dtype(op, {"gate", gate});
  TORCH_CHECK_VALUE(gate.dim() >= 1 && gate.sym_size(-1) > 0, op, ": gate is ", gate.sym_sizes(),
                    "; expected [..., width] with width at least 1;"
                    " check the input of the feed-forward part");
  check_same_shape(op, {"up", up}, {"gate", gate});
}

void check_same_shape(const char* op, Named other, Named first) {
  TORCH_CHECK_VALUE(other.tensor.sym_sizes() == first.tensor.sym_sizes(), op, ": ", other.name,
                    " is ", other.tensor.sym_sizes(), "; expected ", first.tensor.sym_sizes(),
                    ", the shape of ", first.name, "; expand it first");
  check_like(op, other, first);
}

void check_constant(const char* op, Named constant) {
  TORCH_CHECK_VALUE(!constant.tensor.requires_grad(), op, ": ", constant.name,
                    " requires a gradient; expected a constant; pass ", constant.name, ".detach()");
}

}  // namespace kha::ops
