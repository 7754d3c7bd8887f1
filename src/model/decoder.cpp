#include "model/decoder.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include <cassert>

#include "kha/ops/layers.h"

namespace kha {
namespace {

std::vector<at::Tensor> with_prefix(const Parameters& parameters, const std::string& prefix) {
  std::vector<at::Tensor> found;
  for (const auto& [name, value] : parameters.entries()) {
    if (name.starts_with(prefix)) found.push_back(value);
  }
  return found;
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const Parameters& parameters, KnockPlan plan,
                 int64_t positions, Recompute recompute)
    : recompute_(recompute),
      eps_(config.rms_norm_eps),
      embedding_(parameters.at("model.embed_tokens.weight")),
      final_norm_(parameters.at("model.norm.weight")),
      head_(config.tie_word_embeddings ? embedding_ : parameters.at("lm_head.weight")),
      rotary_(positions, config.rotary_width(), config.rope_theta, embedding_.scalar_type(),
              embedding_.device(), config.rotary_scaling,
              config.rotary_layout == "interleaved") {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    layers_.push_back(std::make_shared<const Layer>(
        Layer{layer, eps_, parameters.at(prefix + "input_layernorm.weight"),
              parameters.at(prefix + "post_attention_layernorm.weight"),
              make_attention(config, parameters, layer, plan),
              FeedForward(parameters, prefix + "mlp."), with_prefix(parameters, prefix)}));
  }
}

at::Tensor Decoder::Layer::attend(const at::Tensor& x, const RotaryTable& rotary, KvCache* cache,
                                  const PackedLayout* layout) const {
  Projected projected = attention->project(x, rotary, cache ? cache->length() : 0);
  const CacheEntry all = cache ? cache->append(index, projected.entry) : projected.entry;
  return attention->aggregate(attention->attend(projected.queries_BTHD, all, layout));
}

at::Tensor Decoder::Layer::operator()(const at::Tensor& x, const RotaryTable& rotary,
                                      KvCache* cache, const PackedLayout* layout) const {
  // Added to the part's own result, which nobody else reads: one tensor less to write.
  const at::Tensor attended =
      attend(ops::rms_norm(x, attention_norm, eps), rotary, cache, layout).add_(x);
  return feed_forward(ops::rms_norm(attended, feed_forward_norm, eps)).add_(attended);
}

at::Tensor Decoder::embed(const at::Tensor& ids) const {
  RECORD_USER_SCOPE("kha/embedding");
  return at::embedding(embedding_, ids);
}

at::Tensor Decoder::hidden(const at::Tensor& ids, KvCache* cache,
                           const std::shared_ptr<const PackedLayout>& layout) const {
  // Parts of a profile; what no inner part claims is norms, rotation and residual sums.
  RECORD_USER_SCOPE("kha/norms, rotation, residuals");
  assert((!cache || recompute_ == Recompute::none) && "a cached position is not computed again");
  assert((!cache || !layout) && "cached positions are one text");
  const RotaryTable rotary = layout ? rotary_.placed(*layout) : rotary_;
  at::Tensor x = embed(ids);
  for (const auto& layer : layers_) {
    if (recompute_ == Recompute::none) {
      x = (*layer)(x, rotary, cache, layout.get());
    } else {
      // The function outlives this decoder: it holds what it reads.
      const auto run = [layer, rotary, layout](const at::Tensor& input) {
        return (*layer)(input, rotary, nullptr, layout.get());
      };
      x = recompute_in_backward(run, x, layer->parameters);
    }
  }
  if (cache) cache->advance(ids.size(1));
  return ops::rms_norm(x, final_norm_, eps_);
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const { return at::linear(hidden, head_); }

}  // namespace kha
