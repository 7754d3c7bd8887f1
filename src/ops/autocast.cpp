// Under torch.autocast every argument is cast to autocast's dtype, as for torch's own products.
//
// The operators refuse mixed dtypes; here float32 weights meet bfloat16 activations by the user's
// wish. float64 stays as it is, by autocast's own rule.
#include "ops/autocast.h"

#include <torch/library.h>

#include "kha/ops/knock.h"

namespace kha::ops {
namespace {

using at::Tensor;

template <c10::DeviceType device>
Tensor linear(const Tensor& x, const Tensor& weight) {
  const Caster<device> cast;
  return knock_linear(cast(x), cast(weight));
}

template <c10::DeviceType device>
Tensor mlp(const Tensor& x, const Tensor& up, const Tensor& gate, const Tensor& down) {
  const Caster<device> cast;
  return knock_mlp(cast(x), cast(up), cast(gate), cast(down));
}

template <c10::DeviceType device>
Tensor gated(const Tensor& x, const Tensor& gate) {
  const Caster<device> cast;
  return knock_gate(cast(x), cast(gate));
}

template <c10::DeviceType device>
Tensor projection(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                  const Tensor& map) {
  const Caster<device> cast;
  return knocked_linear(cast(x), cast(weight), cast(bias), cast(map));
}

template <c10::DeviceType device>
void register_casts(torch::Library& library) {
  library.impl("knock_linear", TORCH_FN(linear<device>));
  library.impl("knock_mlp", TORCH_FN(mlp<device>));
  library.impl("knock_gate", TORCH_FN(gated<device>));
  library.impl("knocked_linear", TORCH_FN(projection<device>));
}

TORCH_LIBRARY_IMPL(kha, AutocastCPU, library) { register_casts<c10::DeviceType::CPU>(library); }
TORCH_LIBRARY_IMPL(kha, AutocastCUDA, library) { register_casts<c10::DeviceType::CUDA>(library); }

}  // namespace
}  // namespace kha::ops
