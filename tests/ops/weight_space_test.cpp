// Training a linear map in weight space and in activation space is the same training.
#include <gtest/gtest.h>

#include "ops/operators.h"

namespace kha::test {
namespace {

// The activation-space plan: a plain projection, then the map on every head.
at::Tensor project_then_knock(const Tensors& a) {
  const auto dim = a.back().size(0);
  const auto bias = a.size() == 4 ? std::optional(a[2]) : std::nullopt;
  const at::Tensor projected = at::linear(a[0], a[1], bias);
  return kha::ops::knock_linear(projected.unflatten(-1, {-1, dim}), a.back()).flatten(-2);
}

void expect_same_training(bool has_bias, const Case& c) {
  const Operator op = projection_operator(has_bias);
  at::manual_seed(21);
  const Tensors arguments = op.arguments(c);
  const at::Tensor grad = at::randn_like(op.call(arguments));
  const Tensors on_weights = run(op.call, arguments, grad);
  const Tensors on_activations = run(project_then_knock, arguments, grad);
  const Tensors want = op.reference(in_double(arguments), in_double({grad})[0]);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = (on_weights[i] - on_activations[i]).abs().max().item<double>();
    const double scale = want[i].abs().max().item<double>();
    EXPECT_LE(difference, (c.dtype == at::kDouble ? 1e-13 : 1e-5) * scale)
        << "output " << i << ", bias " << has_bias << ", " << c.name();
  }
}

TEST(WeightSpace, GradientsEqualActivationSpace) {
  for (bool has_bias : {true, false}) {
    for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      expect_same_training(has_bias, {4, 16, {2, 33}, Layout::contiguous, dtype});
      expect_same_training(has_bias, {1, 16, {1}, Layout::contiguous, dtype});
    }
  }
}

TEST(WeightSpace, IdentityMapKeepsThePlainProjectionsBits) {
  at::manual_seed(22);
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 17, 24}).to(dtype), weight = at::randn({32, 24}).to(dtype);
    const at::Tensor bias = at::randn({32}).to(dtype), map = at::eye(8).to(dtype);
    EXPECT_TRUE(
        at::equal(kha::ops::knocked_linear(x, weight, bias, map), at::linear(x, weight, bias)));
  }
}

TEST(WeightSpace, RefusalsReachCxxCallersAsErrors) {
  const at::Tensor x = at::zeros({7, 48}), weight = at::zeros({100, 48}), map = at::zeros({64, 64});
  try {
    kha::ops::knocked_linear(x, weight, std::nullopt, map);
    FAIL() << "100 rows are no multiple of 64";
  } catch (const c10::ValueError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("kha::knocked_linear: weight is [100, 48]"), text.npos) << text;
    EXPECT_NE(text.find("multiple of head_dim = 64"), text.npos) << text;
    EXPECT_NE(text.find("check the head dimension"), text.npos) << text;
  }
}

}  // namespace
}  // namespace kha::test
