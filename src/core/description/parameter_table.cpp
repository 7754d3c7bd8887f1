#include "kha/core/parameter_table.h"

#include "kha/core/attention_system.h"

namespace kha {
namespace {

class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, KnockStart start) : c_(config), start_(start) {}

  std::vector<ParameterSpec> build() {
    const int64_t d = c_.hidden_size;
    add("model.embed_tokens.weight", {c_.vocab_size, d}, Role::embedding, Init::normal);
    for (layer_ = 0; layer_ < c_.num_hidden_layers; ++layer_) add_layer();
    layer_ = -1;
    add("model.norm.weight", {d}, Role::norm, Init::ones);
    if (!c_.tie_word_embeddings)
      add("lm_head.weight", {c_.vocab_size, d}, Role::head, Init::normal);
    return std::move(table_);
  }

 private:
  void add(std::string name, std::vector<int64_t> shape, Role role, Init init) {
    table_.push_back({std::move(name), std::move(shape), role, init, layer_, expert_});
  }

  void add_knock(const KnockPlace& place) {
    const int64_t width = place.rows(c_).width;
    for (const auto& tensor : knock_tensors(c_.knocks.at(layer_).at(place.slot))) {
      const Init identity = tensor.starts_at_identity ? Init::identity : Init::zeros;
      add(knock_name(layer_, place.slot, tensor.suffix), {width, width}, Role::knock,
          start_ == KnockStart::identity ? identity : Init::normal);
    }
  }

  void add_attention_tensor(const AttentionTensor& tensor) {
    const std::string name = attention_prefix(layer_) + tensor.name;
    if (tensor.is_norm()) return add(name + ".weight", {tensor.outputs}, Role::norm, Init::ones);
    add(name + ".weight", {tensor.outputs, tensor.inputs}, Role::matrix, tensor.init);
    if (tensor.may_have_bias && c_.attention_bias)
      add(name + ".bias", {tensor.outputs}, Role::bias, Init::zeros);
  }

  // Each map stands behind the projection that it follows, or in front of the output's.
  void add_attention() {
    const auto& system = attention_declaration(c_.attention, "");
    for (const AttentionTensor& tensor : system.tensors(c_)) {
      const auto add_knocks = [&](bool in_front) {
        for (const KnockPlace& place : system.places) {
          const bool before = place.linear_into == FoldHome::output;
          if (place.projection(c_) == tensor.name && before == in_front) add_knock(place);
        }
      };
      add_knocks(true);
      add_attention_tensor(tensor);
      add_knocks(false);
    }
  }

  void add_layer() {
    const int64_t d = c_.hidden_size;
    const std::string prefix = "model.layers." + std::to_string(layer_) + ".";
    add(prefix + "input_layernorm.weight", {d}, Role::norm, Init::ones);
    add_attention();
    add(prefix + "post_attention_layernorm.weight", {d}, Role::norm, Init::ones);
    if (c_.experts.in_layer(layer_)) return add_mixture();
    add_feed_forward(feed_forward_prefix(layer_), c_.intermediate_size, Role::matrix);
  }

  void add_feed_forward(const std::string& prefix, int64_t width, Role role) {
    const int64_t d = c_.hidden_size;
    add(prefix + "gate_proj.weight", {width, d}, role, Init::normal);
    add(prefix + "up_proj.weight", {width, d}, role, Init::normal);
    add(prefix + "down_proj.weight", {d, width}, role, Init::normal);
  }

  // Router, routed experts one by one, shared experts as one.
  void add_mixture() {
    const ExpertConfig& e = c_.experts;
    const std::string prefix = feed_forward_prefix(layer_);
    add(prefix + "gate.weight", {e.count, c_.hidden_size}, Role::matrix, Init::normal);
    if (e.selection_bias()) {
      add(prefix + "gate.e_score_correction_bias", {e.count}, Role::bias, Init::zeros);
      table_.back().trained = false;
    }
    for (expert_ = 0; expert_ < e.count; ++expert_) {
      add_feed_forward(prefix + "experts." + std::to_string(expert_) + ".", e.width, Role::expert);
    }
    expert_ = -1;
    if (e.shared > 0)
      add_feed_forward(prefix + "shared_experts.", e.shared * e.width, Role::expert);
  }

  const ModelConfig& c_;
  KnockStart start_;
  int64_t layer_ = -1, expert_ = -1;
  std::vector<ParameterSpec> table_;
};

}  // namespace

std::string to_string(Role role) {
  static const char* const names[] = {"embedding", "head",  "matrices", "norms",
                                      "biases",    "knock", "experts"};
  return names[static_cast<size_t>(role)];
}

int64_t ParameterSpec::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::vector<KnockTensor> knock_tensors(KnockKind kind) {
  switch (kind) {
    case KnockKind::none:
      return {};
    case KnockKind::linear:
      return {{"weight", true}};
    case KnockKind::mlp:
      return {{"up.weight", true}, {"gate.weight", false}, {"down.weight", true}};
    case KnockKind::gate:
      return {{"gate.weight", false}};
  }
  return {};
}

std::string feed_forward_prefix(int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".mlp.";
}

std::string attention_prefix(int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".self_attn.";
}

std::string knock_name(int64_t layer, KnockSlot slot, const std::string& suffix) {
  return attention_prefix(layer) + "knock_" + to_string(slot) + "." + suffix;
}

std::vector<ParameterSpec> parameter_table(const ModelConfig& config, KnockStart start) {
  return TableBuilder(config, start).build();
}

}  // namespace kha
