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
    table_.push_back({std::move(name), std::move(shape), role, init, layer_});
  }

  void add_projection(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in}, Role::matrix, Init::normal);
    if (c_.attention_bias) add(name + ".bias", {out}, Role::bias, Init::zeros);
  }

  void add_knock(KnockSlot slot) {
    for (const auto& tensor : knock_tensors(c_.knocks.at(layer_).at(slot))) {
      const Init identity = tensor.starts_at_identity ? Init::identity : Init::zeros;
      add(knock_name(layer_, slot, tensor.suffix), {c_.head_dim, c_.head_dim}, Role::knock,
          start_ == KnockStart::identity ? identity : Init::normal);
    }
  }

  void add_attention() {
    const int64_t d = c_.hidden_size;
    const std::string prefix = attention_prefix(layer_);
    for (const KnockPlace& place : attention_declaration(c_.attention, "").places) {
      const int64_t heads = place.key_value_heads ? c_.num_key_value_heads : c_.num_attention_heads;
      add_projection(prefix + place.projection, heads * c_.head_dim, d);
      add_knock(place.slot);
    }
    add(prefix + "q_norm.weight", {c_.head_dim}, Role::norm, Init::ones);
    add(prefix + "k_norm.weight", {c_.head_dim}, Role::norm, Init::ones);
    add_projection(prefix + "o_proj", d, c_.num_attention_heads * c_.head_dim);
  }

  void add_layer() {
    const int64_t d = c_.hidden_size;
    const std::string prefix = "model.layers." + std::to_string(layer_) + ".";
    add(prefix + "input_layernorm.weight", {d}, Role::norm, Init::ones);
    add_attention();
    add(prefix + "post_attention_layernorm.weight", {d}, Role::norm, Init::ones);
    add(prefix + "mlp.gate_proj.weight", {c_.intermediate_size, d}, Role::matrix, Init::normal);
    add(prefix + "mlp.up_proj.weight", {c_.intermediate_size, d}, Role::matrix, Init::normal);
    add(prefix + "mlp.down_proj.weight", {d, c_.intermediate_size}, Role::matrix, Init::normal);
  }

  const ModelConfig& c_;
  KnockStart start_;
  int64_t layer_ = -1;
  std::vector<ParameterSpec> table_;
};

}  // namespace

std::string to_string(Role role) {
  static const char* const names[] = {"embedding", "head", "matrices", "norms", "biases", "knock"};
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
