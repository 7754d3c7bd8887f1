#include "model/decoder.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "kha/ops/layers.h"

namespace kha {

Decoder::Decoder(const ModelConfig& config, const Parameters& parameters, KnockPlan plan,
                 int64_t positions)
    : eps_(config.rms_norm_eps),
      embedding_(parameters.at("model.embed_tokens.weight")),
      final_norm_(parameters.at("model.norm.weight")),
      head_(config.tie_word_embeddings ? embedding_ : parameters.at("lm_head.weight")),
      rotary_(positions, config.head_dim, config.rope_theta, embedding_.scalar_type(),
              embedding_.device()) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    layers_.push_back({parameters.at(prefix + "input_layernorm.weight"),
                       parameters.at(prefix + "post_attention_layernorm.weight"),
                       make_attention(config, parameters, layer, plan),
                       FeedForward(parameters, prefix + "mlp.")});
  }
}

at::Tensor Decoder::attend(int64_t layer, const at::Tensor& x, KvCache* cache) const {
  const Attention& attention = *layers_[layer].attention;
  Projected projected = attention.project(x, rotary_, cache ? cache->length() : 0);
  const CacheEntry all = cache ? cache->append(layer, projected.entry) : projected.entry;
  return attention.aggregate(attention.attend(projected.queries_BTHD, all));
}

at::Tensor Decoder::embed(const at::Tensor& ids) const {
  RECORD_USER_SCOPE("kha/embedding");
  return at::embedding(embedding_, ids);
}

at::Tensor Decoder::feed_forward(const Layer& layer, const at::Tensor& x) {
  RECORD_USER_SCOPE("kha/feed-forward");
  return layer.feed_forward(x);
}

at::Tensor Decoder::hidden(const at::Tensor& ids, KvCache* cache) const {
  // Parts of a profile; what no inner part claims is norms, rotation and residual sums.
  RECORD_USER_SCOPE("kha/norms, rotation, residuals");
  at::Tensor x = embed(ids);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    // Added to the part's own result, which nobody else reads: one tensor less to write.
    x = attend(static_cast<int64_t>(i), ops::rms_norm(x, layer.attention_norm, eps_), cache)
            .add_(x);
    x = feed_forward(layer, ops::rms_norm(x, layer.feed_forward_norm, eps_)).add_(x);
  }
  if (cache) cache->advance(ids.size(1));
  return ops::rms_norm(x, final_norm_, eps_);
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const { return at::linear(hidden, head_); }

}  // namespace kha
