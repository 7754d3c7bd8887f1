#include "model/decoder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>

#include "kha/core/error.h"
#include "kha/ops/layers.h"
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

[[noreturn]] void fail_call(const std::string& what, const std::string& expected,
                            const std::string& found, const std::string& next) {
  fail({.what = what,
        .where = "a pass of the decoder",
        .expected = expected,
        .found = found,
        .next = next});
}

void check_layout(const PackedLayout& layout, int64_t batch, int64_t length, const KvCache* cache) {
  const int64_t cached = cache ? cache->length() : 0;
  int64_t tokens = 0;
  for (const int64_t each : layout.lengths) tokens += each;
  // What comes later would see the documents as one text.
  if (!layout.lengths.empty() && cache) {
    fail_call(
        "documents cannot be read into a cache", "one text a row",
        fmt::format("{} documents and a cache of {} positions", layout.lengths.size(), cached),
        "give the rows without a cache, or each document a row of its own");
  }
  if (!layout.lengths.empty() && tokens != batch * length) {
    fail_call("the documents do not fill the batch", fmt::format("{} tokens", batch * length),
              fmt::format("{} tokens", tokens),
              "name the length of every document's part of a row");
  }
  const at::Tensor& text = layout.text_BS;
  if (text.defined() && text.sizes() != at::IntArrayRef{batch, cached + length}) {
    fail_call(
        "the padding is not that of the batch",
        fmt::format("text_BS [{}, {}]: cached positions and new ones", batch, cached + length),
        fmt::format("{} numbers", text.numel()), "say of every position whether it is text");
  }
}

// On the CPU alone: elsewhere looking at them would wait for the device.
void check_positions(const at::Tensor& positions, int64_t tokens, int64_t room) {
  if (positions.numel() != tokens) {
    fail_call("the positions are not those of the batch", fmt::format("{} positions", tokens),
              fmt::format("{}", positions.numel()), "give one for every token");
  }
  if (!positions.device().is_cpu() || tokens == 0) return;
  const auto least = positions.min().item<int64_t>(), most = positions.max().item<int64_t>();
  if (least >= 0 && most < room) return;
  fail_call("a position lies outside the decoder's room", fmt::format("0 to {}", room - 1),
            fmt::format("{} to {}", least, most), "make the decoder with more positions");
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
    Layer made{layer,
               eps_,
               parameters.at(prefix + "input_layernorm.weight"),
               parameters.at(prefix + "post_attention_layernorm.weight"),
               make_attention(config, parameters, layer, plan),
               {},
               {},
               with_prefix(parameters, prefix)};
    if (config.experts.in_layer(layer)) {
      made.mixture.emplace(config.experts, parameters, prefix + "mlp.", layer, record);
    } else {
      made.dense.emplace(parameters, prefix + "mlp.");
    }
    layers_.push_back(std::make_shared<const Layer>(std::move(made)));
  }
}

namespace {

// What is kept of padding is zero, so that not even a value that is no number reaches a sum.
void hide_padding(CacheEntry& entry, const at::Tensor& text) {
  for (at::Tensor& tensor : entry) {
    const int64_t length = tensor.size(1);
    const at::Tensor padding = text.narrow(1, text.size(1) - length, length).logical_not();
    tensor = tensor.masked_fill(padding.unsqueeze(2).unsqueeze(3), 0);
  }
}

// A cache is written in place, over values that a backward pass would still need.
void refuse_gradient(const CacheEntry& entry) {
  if (!at::GradMode::is_enabled()) return;
  for (const at::Tensor& tensor : entry) {
    if (!tensor.requires_grad()) continue;
    fail_call("gradients cannot be taken through a cache", "a pass without gradients",
              "parameters that require a gradient",
              "hold an at::NoGradGuard while decoding, or give the whole text without a cache");
  }
}

}  // namespace

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
    fail_call("the text is longer than the decoder's room",
              fmt::format("at most {} positions", rotary_.positions()),
              fmt::format("{}", cached + length), "make the decoder with more positions");
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
  if (cached > 0 && !rotary_.same_frequencies(reach, std::max<int64_t>(reach - length, 0))) {
    fail_call(
        "the cache holds keys of other rotary frequencies",
        fmt::format("at most {} positions with this cache: the scaling `{}` turns longer texts "
                    "by other frequencies",
                    config_.rotary_scaling.original_max_position_embeddings,
                    config_.rotary_scaling.kind),
        fmt::format("{} cached positions, {} with the new ones", cached, reach),
        config_.rotary_scaling.kind == "dynamic"
            ? "read the whole text again in each step (--no-cache)"
            : "read the whole text again (--no-cache), or give a prompt that is longer already");
  }
  const RotaryTable table = rotary_.of_length(reach);
  return layout ? table.placed(*layout) : table;
}

at::Tensor Decoder::hidden(const at::Tensor& ids, KvCache* cache,
                           const std::shared_ptr<const PackedLayout>& given) const {
  // Parts of a profile; what no inner part claims is norms, rotation and residual sums.
  RECORD_USER_SCOPE("kha/norms, rotation, residuals");
  if (cache && recompute_ != Recompute::none) {
    fail_call("a decoder that recomputes its layers has no use for a cache", "recompute none",
              "recompute layer", "make the decoder without recomputation");
  }
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
