#include "model/decoder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "kha/ops/layers.h"
#include "model/pass_checks.h"
#include "modules/cache_fit.h"
#include "modules/pass_tap.h"

namespace kha {
namespace {

std::vector<at::Tensor> with_prefix(const Parameters& parameters, const std::string& prefix) {
  std::vector<at::Tensor> found;
  for (const auto& [name, value] : parameters.entries()) {
    if (name.starts_with(prefix)) found.push_back(value);
  }
  return found;
}

// One of the two: the feed-forward of a layer is dense or a mixture.
std::optional<FeedForward> dense_of(const ModelConfig& config, const Parameters& parameters,
                                    int64_t layer, const std::string& prefix) {
  if (config.experts.in_layer(layer)) return std::nullopt;
  return FeedForward(parameters, prefix);
}

std::optional<Mixture> mixture_of(const ModelConfig& config, const Parameters& parameters,
                                  int64_t layer, const std::string& prefix,
                                  const std::shared_ptr<RouterRecord>& record) {
  if (!config.experts.in_layer(layer)) return std::nullopt;
  return Mixture(config.experts, parameters, prefix, layer, record);
}

// What is kept of padding is zero, so that not even a value that is no number reaches a sum.
void hide_padding(CacheEntry& entry, const at::Tensor& text) {
  for (at::Tensor& tensor : entry) {
    const int64_t length = tensor.size(1);
    const at::Tensor padding = text.narrow(1, text.size(1) - length, length).logical_not();
    tensor = tensor.masked_fill(padding.unsqueeze(2).unsqueeze(3), 0);
  }
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const Parameters& parameters, KnockPlan plan,
                 int64_t positions, Recompute recompute, std::shared_ptr<RouterRecord> record)
    : recompute_(recompute),
      eps_(config.rms_norm_eps),
      config_(config),
      embedding_(parameters.at("model.embed_tokens.weight")),
      final_norm_(parameters.at("model.norm.weight")),
      head_(config.tie_word_embeddings ? embedding_ : parameters.at("lm_head.weight")),
      rotary_(rotary_table_of(config, positions, embedding_.scalar_type(), embedding_.device())) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    layers_.push_back(std::make_shared<const Layer>(
        Layer{.index = layer,
              .eps = eps_,
              .attention_norm = parameters.at(prefix + "input_layernorm.weight"),
              .feed_forward_norm = parameters.at(prefix + "post_attention_layernorm.weight"),
              .attention = make_attention(config, parameters, layer, plan),
              .dense = dense_of(config, parameters, layer, prefix + "mlp."),
              .mixture = mixture_of(config, parameters, layer, prefix + "mlp.", record),
              .parameters = with_prefix(parameters, prefix)}));
  }
}

at::Tensor Decoder::Layer::attend(const at::Tensor& x, const RotaryTable& rotary, KvCache* cache,
                                  const PackedLayout* layout) const {
  Projected projected = attention->project(x, rotary, cache ? cache->length() : 0);
  if (layout && layout->text_BS.defined()) hide_padding(projected.entry, layout->text_BS);
  if (cache) refuse_gradient(projected.entry);
  const CacheEntry all = cache ? cache->append(index, projected.entry) : projected.entry;
  return attention->aggregate(attention->attend(projected.queries_BTHD, all, layout));
}

at::Tensor Decoder::Layer::feed_forward(const at::Tensor& x) const {
  if (!mixture) return (*dense)(x);
  if (const PassTap* tap = current_pass_tap(); tap && tap->routed) tap->routed(index, x);
  return (*mixture)(x);
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

std::shared_ptr<const PackedLayout> Decoder::resolve(
    const at::Tensor& ids, const KvCache* cache, std::shared_ptr<const PackedLayout> layout) const {
  const int64_t length = ids.size(1), cached = cache ? cache->length() : 0;
  if (layout) check_layout(*layout, ids.size(0), length, cache);
  if (layout && layout->text_BS.defined() && !layout->positions_N.defined()) {
    auto placed = std::make_shared<PackedLayout>(*layout);
    placed->positions_N = text_positions(layout->text_BS, length);
    layout = placed;
  }
  if (layout && layout->positions_N.defined()) {
    check_positions(layout->positions_N, ids.numel(), rotary_.positions());
  } else if (cached + length > rotary_.positions()) {
    refuse_length(cached + length, rotary_.positions());
  }
  return layout;
}

RotaryTable Decoder::rotary_of(const at::Tensor& ids, const KvCache* cache,
                               const PackedLayout* layout) const {
  if (!config_.rotary_scaling.depends_on_length())
    return layout ? rotary_.placed(*layout) : rotary_;
  const int64_t cached = cache ? cache->length() : 0, length = ids.size(1);
  const bool placed = layout && layout->positions_N.defined() && ids.numel() > 0;
  const int64_t reach = placed ? layout->positions_N.max().item<int64_t>() + 1 : cached + length;
  if (cached > 0) check_frequencies(config_.rotary_scaling, rotary_, cached, length, reach);
  const RotaryTable table = rotary_.of_length(reach);
  return layout ? table.placed(*layout) : table;
}

at::Tensor Decoder::hidden(const at::Tensor& ids, KvCache* cache,
                           const std::shared_ptr<const PackedLayout>& given) const {
  // Parts of a profile; what no inner part claims is norms, rotation and residual sums.
  RECORD_USER_SCOPE("kha/norms, rotation, residuals");
  if (cache && recompute_ != Recompute::none) refuse_cache_with_recomputation();
  const auto layout = resolve(ids, cache, given);
  const RotaryTable rotary = rotary_of(ids, cache, layout.get());
  at::Tensor x = embed(ids);
  if (cache) require_fit(*cache, config_, x);
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
