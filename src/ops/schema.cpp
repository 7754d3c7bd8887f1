// The operators' names and signatures; shapes and meanings are in kha/ops/knock.h.
//
// Each *_backward takes the result's gradient first, then the forward arguments, and returns one
// gradient per forward argument, in their order. knocked_linear_backward returns a bias gradient
// of shape [0] where there is no bias, so that every result is a tensor.
#include <torch/library.h>

TORCH_LIBRARY(kha, m) {
  m.def("knock_linear(Tensor x, Tensor weight) -> Tensor");
  m.def("knock_linear_backward(Tensor grad, Tensor x, Tensor weight) -> (Tensor, Tensor)");

  m.def("knock_mlp(Tensor x, Tensor up, Tensor gate, Tensor down) -> Tensor");
  m.def(
      "knock_mlp_backward(Tensor grad, Tensor x, Tensor up, Tensor gate, Tensor down)"
      " -> (Tensor, Tensor, Tensor, Tensor)");

  m.def("knock_gate(Tensor x, Tensor gate) -> Tensor");
  m.def("knock_gate_backward(Tensor grad, Tensor x, Tensor gate) -> (Tensor, Tensor)");

  m.def("knocked_linear(Tensor x, Tensor weight, Tensor? bias, Tensor map) -> Tensor");
  m.def(
      "knocked_linear_backward(Tensor grad, Tensor x, Tensor weight, Tensor? bias, Tensor map)"
      " -> (Tensor, Tensor, Tensor, Tensor)");

  m.def("cpu_implementation() -> str");
  m.def("set_cpu_implementation(str name) -> ()");
  m.def("widest_instruction_set() -> str");
  m.def("measure_ceiling(int threads, float seconds) -> float");
  m.def("head_loss(Tensor hidden, Tensor weight, Tensor targets) -> Tensor");
  m.def(
      "head_loss_with_gradients(Tensor scales, Tensor hidden, Tensor weight, Tensor targets,"
      " bool with_weight=True, float z_loss=0.0) -> (Tensor, Tensor, Tensor)");

  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");

  m.def("norm_rope(Tensor x, Tensor weight, float eps, Tensor cos, Tensor sin) -> Tensor");
  m.def(
      "norm_rope_backward(Tensor grad, Tensor x, Tensor weight, float eps, Tensor cos, Tensor sin)"
      " -> (Tensor, Tensor)");

  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}
