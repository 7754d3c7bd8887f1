#include "ops/validate.h"

#include <c10/util/Exception.h>

#include <string>

namespace kha::ops {
namespace {

bool is_supported(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace

// The name Python users know where it is one of ours, torch's own C++ name otherwise.
std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      return c10::toString(type);
  }
}

void check_dtype(const char* op, Named first) {
  const at::ScalarType type = first.tensor.scalar_type();
  TORCH_CHECK_VALUE(is_supported(type), op, ": ", first.name, " is ", dtype_name(type),
                    "; expected float32, float64, bfloat16 or float16;"
                    " convert it, for example with ",
                    first.name, ".to(torch.float32)");
}

void check_device(const char* op, Named other, Named first) {
  TORCH_CHECK_VALUE(other.tensor.device() == first.tensor.device(), op, ": ", other.name, " is on ",
                    other.tensor.device(), ", ", first.name, " is on ", first.tensor.device(),
                    "; expected one device; move it with ", other.name, ".to(", first.name,
                    ".device)");
}

void check_like(const char* op, Named other, Named first) {
  const at::ScalarType type = first.tensor.scalar_type();
  TORCH_CHECK_VALUE(other.tensor.scalar_type() == type, op, ": ", other.name, " is ",
                    dtype_name(other.tensor.scalar_type()), ", ", first.name, " is ",
                    dtype_name(type), "; expected one dtype; cast with ", other.name, ".to(",
                    first.name, ".dtype), or run under torch.autocast");
  check_device(op, other, first);
}

bool has_shape(const at::Tensor& tensor, std::initializer_list<c10::SymInt> shape) {
  return tensor.sym_sizes() == c10::SymIntArrayRef(shape.begin(), shape.size());
}

namespace {

void check_like_x(const char* op, Named other, const at::Tensor& x) {
  check_like(op, other, {"x", x});
}

void check_features(const char* op, const at::Tensor& x) {
  check_dtype(op, {"x", x});
  TORCH_CHECK_VALUE(x.dim() >= 2, op, ": x is ", x.sym_sizes(),
                    "; expected [..., heads, head_dim], at least two dimensions;"
                    " add the head dimension with x.unsqueeze(-2)");
  TORCH_CHECK_VALUE(x.sym_size(-1) > 0, op, ": x is ", x.sym_sizes(),
                    "; expected [..., heads, head_dim] with head_dim at least 1;"
                    " check the head dimension of the model");
  const bool adjacent = x.sym_size(-1) == 1 || x.sym_stride(-1) == 1 || x.sym_numel() == 0;
  TORCH_CHECK_VALUE(adjacent, op, ": x ", x.sym_sizes(), " has stride ", x.sym_stride(-1),
                    " in its last dimension; expected 1, other strides are free;"
                    " call x.contiguous() first");
}

}  // namespace

void check_knock(const char* op, const at::Tensor& x, std::initializer_list<Named> maps) {
  check_features(op, x);
  const c10::SymInt dim = x.sym_size(-1);
  for (const Named& map : maps) {
    TORCH_CHECK_VALUE(has_shape(map.tensor, {dim, dim}), op, ": ", map.name, " is ",
                      map.tensor.sym_sizes(), "; expected [head_dim, head_dim] = [", dim, ", ", dim,
                      "], the last dimension of x ", x.sym_sizes(),
                      "; store the map as torch.nn.Linear does");
    check_like_x(op, map, x);
  }
}

void check_knocked_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, const at::Tensor& map) {
  check_dtype(op, {"x", x});
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.sym_size(-1) > 0, op, ": x is ", x.sym_sizes(),
                    "; expected [..., model_width] with model_width at least 1;"
                    " check the input of the projection");
  const bool square = map.dim() == 2 && map.sym_size(0) == map.sym_size(1) && map.sym_size(0) > 0;
  TORCH_CHECK_VALUE(square, op, ": map is ", map.sym_sizes(),
                    "; expected a square [head_dim, head_dim];"
                    " store the map as torch.nn.Linear does");
  TORCH_CHECK_VALUE(weight.dim() == 2 && weight.sym_size(1) == x.sym_size(-1), op, ": weight is ",
                    weight.sym_sizes(), "; expected [heads * head_dim, model_width] = [..., ",
                    x.sym_size(-1), "], the last dimension of x ", x.sym_sizes(),
                    "; store the projection as torch.nn.Linear does");
  const c10::SymInt rows = weight.sym_size(0);
  TORCH_CHECK_VALUE(rows > 0 && rows % map.sym_size(0) == 0, op, ": weight is ", weight.sym_sizes(),
                    " with ", rows, " rows; expected a multiple of head_dim = ", map.sym_size(0),
                    ", the size of map; check the head dimension");
  check_like_x(op, {"weight", weight}, x);
  check_like_x(op, {"map", map}, x);
  if (!bias.has_value()) return;
  TORCH_CHECK_VALUE(has_shape(*bias, {rows}), op, ": bias is ", bias->sym_sizes(),
                    "; expected [heads * head_dim] = [", rows, "], the rows of weight ",
                    weight.sym_sizes(), "; give one value per output");
  check_like_x(op, {"bias", *bias}, x);
}

void check_gradient(const char* op, const at::Tensor& grad, const at::Tensor& x,
                    const c10::SymInt& width) {
  c10::SymDimVector shape(x.sym_sizes().begin(), x.sym_sizes().end());
  shape.back() = width;
  TORCH_CHECK_VALUE(grad.sym_sizes() == c10::SymIntArrayRef(shape), op, ": grad is ",
                    grad.sym_sizes(), "; expected ", c10::SymIntArrayRef(shape),
                    ", the shape of the result; pass the result's gradient");
  check_like_x(op, {"grad", grad}, x);
}

}  // namespace kha::ops
