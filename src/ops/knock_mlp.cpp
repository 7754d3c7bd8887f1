// kha::knock_mlp: y = 2 (x U^T * sigmoid(x G^T)) W^T.
#include "kha/ops/knock.h"
#include "ops/map_operator.h"

namespace kha::ops {
namespace {

using at::Tensor;

struct MlpMap {
  static constexpr const char* name = "kha::knock_mlp";
  static constexpr const char* backward_name = "kha::knock_mlp_backward";
  static constexpr MapKind kind = MapKind::mlp;
  static constexpr std::array matrices{"up", "gate", "down"};

  static Tensor compose(const Tensor& x, const std::array<Tensor, 3>& m) {
    const auto& [up, gate, down] = m;
    return gate_factor(x, gate).mul_(x.mm(up.t())).mm(down.t());
  }

  static std::array<Tensor, 4> compose_backward(const Tensor& grad, const Tensor& x,
                                                const std::array<Tensor, 3>& m) {
    const auto& [up, gate, down] = m;
    const Tensor u = x.mm(up.t());
    const Tensor factor = gate_factor(x, gate);
    const Tensor dhidden = grad.mm(down);
    const Tensor dlogit = dhidden.mul(u).mul_(gate_slope(factor));
    const Tensor ddown = grad.t().mm(u.mul_(factor));
    const Tensor du = dhidden.mul_(factor);
    const Tensor dx = du.mm(up).add_(dlogit.mm(gate));
    return {dx, du.t().mm(x), dlogit.t().mm(x), ddown};
  }
};

KHA_REGISTER_MAP(MlpMap)

}  // namespace

Tensor knock_mlp(const Tensor& x, const Tensor& up, const Tensor& gate, const Tensor& down) {
  return MapOperator<MlpMap>::call(x, up, gate, down);
}

}  // namespace kha::ops
