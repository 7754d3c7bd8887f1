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

}  // namespace kha::ops
