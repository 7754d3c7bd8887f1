// kha::knock_linear: y = x M^T, one product over all heads and positions.
#include "kha/ops/knock.h"
#include "ops/map_operator.h"

namespace kha::ops {
namespace {

using at::Tensor;

struct LinearMap {
  static constexpr const char* name = "kha::knock_linear";
  static constexpr const char* backward_name = "kha::knock_linear_backward";
  static constexpr MapKind kind = MapKind::linear;
  static constexpr std::array matrices{"weight"};

  static Tensor compose(const Tensor& x, const std::array<Tensor, 1>& m) { return x.mm(m[0].t()); }

  static std::array<Tensor, 2> compose_backward(const Tensor& grad, const Tensor& x,
                                                const std::array<Tensor, 1>& m) {
    return {grad.mm(m[0]), grad.t().mm(x)};
  }
};

KHA_REGISTER_MAP(LinearMap)

}  // namespace

Tensor knock_linear(const Tensor& x, const Tensor& weight) {
  return MapOperator<LinearMap>::call(x, weight);
}

}  // namespace kha::ops
