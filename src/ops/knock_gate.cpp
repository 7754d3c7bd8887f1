// kha::knock_gate: y = 2 x * sigmoid(x G^T).
#include "kha/ops/knock.h"
#include "ops/map_operator.h"

namespace kha::ops {
namespace {

using at::Tensor;

struct GateMap {
  static constexpr const char* name = "kha::knock_gate";
  static constexpr const char* backward_name = "kha::knock_gate_backward";
  static constexpr MapKind kind = MapKind::gate;
  static constexpr std::array matrices{"gate"};

  static Tensor compose(const Tensor& x, const std::array<Tensor, 1>& m) {
    return gate_factor(x, m[0]).mul_(x);
  }

  static std::array<Tensor, 2> compose_backward(const Tensor& grad, const Tensor& x,
                                                const std::array<Tensor, 1>& m) {
    const Tensor factor = gate_factor(x, m[0]);
    const Tensor dlogit = grad.mul(x).mul_(gate_slope(factor));
    return {dlogit.mm(m[0]).add_(grad.mul(factor)), dlogit.t().mm(x)};
  }
};

KHA_REGISTER_MAP(GateMap)

}  // namespace

Tensor knock_gate(const Tensor& x, const Tensor& gate) {
  return MapOperator<GateMap>::call(x, gate);
}

}  // namespace kha::ops
