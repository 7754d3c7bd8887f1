#include "observe/head_similarity.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "model/decoder.h"
#include "modules/head_tap.h"
#include "observe/watched_positions.h"

namespace kha {
namespace {

HeadCosines cosines_of(const at::Tensor& features_BTHD, const at::Tensor& positions) {
  const at::Tensor x_NHD =
      features_BTHD.flatten(0, 1).index_select(0, positions).to(at::kCPU, at::kDouble);
  // A head whose features are all zero is like no other.
  const at::Tensor unit_NHD = x_NHD / x_NHD.norm(2, {2}, true).clamp_min(1e-30);
  const at::Tensor cosines_NHH = unit_NHD.matmul(unit_NHD.transpose(1, 2));
  const at::Tensor mean_HH = cosines_NHH.mean({0}).contiguous();
  const int64_t heads = mean_HH.size(0);
  HeadCosines result{.heads = heads};
  result.size = x_NHD.square().mean().sqrt().item<double>();
  const double* first = mean_HH.const_data_ptr<double>();
  result.mean.assign(first, first + heads * heads);
  if (heads > 1) {
    const at::Tensor size_HH = cosines_NHH.abs().mean({0});
    const double pairs = static_cast<double>(heads * (heads - 1));
    result.similarity = (size_HH.sum() - size_HH.trace()).item<double>() / pairs;
  }
  return result;
}

}  // namespace

HeadSimilarity head_similarity(const ModelConfig& config, const Parameters& parameters,
                               const Batch& batch) {
  const at::NoGradGuard no_grad;
  const at::Device device = parameters.at("model.embed_tokens.weight").device();
  const at::Tensor positions = text_positions_of(batch).to(device);
  HeadSimilarity result{.positions = positions.numel(), .slots = {}};
  const HeadTap tap = [&](int64_t layer, KnockSlot slot, const at::Tensor& before,
                          const at::Tensor& after) {
    SlotSimilarity seen{.layer = layer, .slot = slot, .before = {}, .after = {}};
    if (!before.is_same(after)) seen.before = cosines_of(before, positions);
    seen.after = cosines_of(after, positions);
    result.slots.push_back(std::move(seen));
  };
  const Decoder decoder(config, parameters, KnockPlan::activation_space, batch.context);
  const HeadTapScope scope(tap);
  decoder.hidden(ids_of(batch).to(device));
  return result;
}

}  // namespace kha
