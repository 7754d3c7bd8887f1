#include "observe/head_similarity.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cstring>

#include "model/decoder.h"
#include "modules/head_tap.h"

namespace kha {
namespace {

// The rows of the batch's real tokens: padding belongs to no document.
at::Tensor real_positions(const Batch& batch) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < batch.documents.size(); ++i) {
    if (batch.documents[i] >= 0) positions.push_back(static_cast<int64_t>(i));
  }
  at::Tensor index = at::empty({static_cast<int64_t>(positions.size())}, at::kLong);
  std::memcpy(index.mutable_data_ptr(), positions.data(), index.nbytes());
  return index;
}

at::Tensor ids_of(const Batch& batch) {
  at::Tensor ids = at::empty({batch.rows, batch.context}, at::kLong);
  std::memcpy(ids.mutable_data_ptr(), batch.inputs.data(), ids.nbytes());
  return ids;
}

HeadCosines cosines_of(const at::Tensor& features_BTHD, const at::Tensor& positions) {
  const at::Tensor x_NHD =
      features_BTHD.flatten(0, 1).index_select(0, positions).to(at::kCPU, at::kDouble);
  // A head whose features are all zero is like no other.
  const at::Tensor unit_NHD = x_NHD / x_NHD.norm(2, {2}, true).clamp_min(1e-30);
  const at::Tensor cosines_NHH = unit_NHD.matmul(unit_NHD.transpose(1, 2));
  const at::Tensor mean_HH = cosines_NHH.mean({0}).contiguous();
  const int64_t heads = mean_HH.size(0);
  HeadCosines result{.heads = heads};
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
  const at::Tensor positions = real_positions(batch).to(device);
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
