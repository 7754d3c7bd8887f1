#include "core/exchange/vllm_tensors.h"

#include <algorithm>

namespace kha {
namespace {

using Json = nlohmann::json;

const std::vector<VllmClass> classes{
    {.name = "LlamaForCausalLM", .output_bias = true},
    {.name = "Qwen2ForCausalLM", .always_bias = true},
    {.name = "Qwen3ForCausalLM", .head_norms = "yes"},
    {.name = "Qwen3MoeForCausalLM", .head_norms = "yes", .experts = "num_experts"},
    {.name = "Glm4MoeForCausalLM",
     .ties_head = false,
     .head_norms = "use_qk_norm",
     .experts = "n_routed_experts"},
    {.name = "DeepseekV2ForCausalLM",
     .latent = true,
     .ties_head = false,
     .experts = "n_routed_experts"},
    {.name = "DeepseekV3ForCausalLM",
     .latent = true,
     .ties_head = false,
     .experts = "n_routed_experts"}};

bool is_true(const Json& config, const std::string& key) {
  const auto entry = config.find(key);
  return entry != config.end() && entry->is_boolean() && entry->get<bool>();
}

class Table {
 public:
  Table(const VllmClass& architecture, const Json& config)
      : class_(architecture), config_(config), d_(size("hidden_size")) {}

  std::map<std::string, std::vector<int64_t>> build() {
    add("model.embed_tokens.weight", {size("vocab_size"), d_});
    add("model.norm.weight", {d_});
    if (!class_.ties_head || !is_true(config_, "tie_word_embeddings"))
      add("lm_head.weight", {size("vocab_size"), d_});
    for (int64_t layer = 0; layer < size("num_hidden_layers"); ++layer) add_layer(layer);
    return std::move(tensors_);
  }

 private:
  int64_t size(const std::string& key) const { return whole_number(config_, key); }
  void add(const std::string& name, std::vector<int64_t> shape) {
    tensors_[name] = std::move(shape);
  }

  void add_layer(int64_t layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {d_});
    add(prefix + "post_attention_layernorm.weight", {d_});
    if (class_.latent) {
      add_latent(prefix + "self_attn.");
    } else {
      add_grouped(prefix + "self_attn.");
    }
    if (vllm_routes(class_, config_, layer)) return add_mixture(prefix + "mlp.");
    add_feed_forward(prefix + "mlp.", size("intermediate_size"));
  }

  void add_grouped(const std::string& prefix) {
    const int64_t heads = size("num_attention_heads"), named = size("head_dim"),
                  width = named > 0 ? named : d_ / std::max<int64_t>(heads, 1),
                  kv = size("num_key_value_heads") * width;
    const bool bias = class_.always_bias || is_true(config_, "attention_bias");
    const std::pair<const char*, int64_t> inputs[] = {
        {"q_proj", heads * width}, {"k_proj", kv}, {"v_proj", kv}};
    for (const auto& [name, rows] : inputs) {
      add(prefix + name + ".weight", {rows, d_});
      if (bias) add(prefix + name + ".bias", {rows});
    }
    add(prefix + "o_proj.weight", {d_, heads * width});
    if (bias && class_.output_bias) add(prefix + "o_proj.bias", {d_});
    if (class_.head_norms == "no") return;
    if (class_.head_norms != "yes" && !is_true(config_, class_.head_norms)) return;
    for (const char* norm : {"q_norm", "k_norm"}) add(prefix + norm + ".weight", {width});
  }

  // No bias anywhere, whatever attention_bias says.
  void add_latent(const std::string& prefix) {
    const int64_t heads = size("num_attention_heads"), plain = size("qk_nope_head_dim"),
                  turned = size("qk_rope_head_dim"), value = size("v_head_dim"),
                  latent = size("kv_lora_rank"), query = size("q_lora_rank");
    const int64_t rows = heads * (plain + turned);
    if (query == 0) {
      add(prefix + "q_proj.weight", {rows, d_});
    } else {
      add(prefix + "q_a_proj.weight", {query, d_});
      add(prefix + "q_a_layernorm.weight", {query});
      add(prefix + "q_b_proj.weight", {rows, query});
    }
    add(prefix + "kv_a_proj_with_mqa.weight", {latent + turned, d_});
    add(prefix + "kv_a_layernorm.weight", {latent});
    add(prefix + "kv_b_proj.weight", {heads * (plain + value), latent});
    add(prefix + "o_proj.weight", {d_, heads * value});
  }

  void add_feed_forward(const std::string& prefix, int64_t width) {
    add(prefix + "gate_proj.weight", {width, d_});
    add(prefix + "up_proj.weight", {width, d_});
    add(prefix + "down_proj.weight", {d_, width});
  }

  void add_mixture(const std::string& prefix) {
    const int64_t count = size(class_.experts), width = size("moe_intermediate_size"),
                  shared = size("n_shared_experts");
    add(prefix + "gate.weight", {count, d_});
    const bool biased = class_.latent ? config_.value("topk_method", Json()) == "noaux_tc"
                                      : class_.name == "Glm4MoeForCausalLM";
    if (biased) add(prefix + "gate.e_score_correction_bias", {count});
    for (int64_t expert = 0; expert < count; ++expert)
      add_feed_forward(prefix + "experts." + std::to_string(expert) + ".", width);
    const bool builds = class_.experts == "n_routed_experts";
    if (builds && shared > 0) add_feed_forward(prefix + "shared_experts.", shared * width);
  }

  const VllmClass& class_;
  const Json& config_;
  int64_t d_;
  std::map<std::string, std::vector<int64_t>> tensors_;
};

}  // namespace

const VllmClass* vllm_class(const std::string& name) {
  const auto found = std::find_if(classes.begin(), classes.end(),
                                  [&](const VllmClass& each) { return each.name == name; });
  return found == classes.end() ? nullptr : &*found;
}

int64_t whole_number(const Json& config, const std::string& key) {
  const auto entry = config.find(key);
  return entry != config.end() && entry->is_number_integer() ? entry->get<int64_t>() : 0;
}

bool vllm_routes(const VllmClass& architecture, const Json& config, int64_t layer) {
  if (architecture.experts.empty() || whole_number(config, architecture.experts) == 0) return false;
  if (architecture.experts == "n_routed_experts")
    return layer >= whole_number(config, "first_k_dense_replace");
  for (const Json& dense : config.value("mlp_only_layers", Json::array())) {
    if (dense == layer) return false;
  }
  return (layer + 1) % std::max<int64_t>(whole_number(config, "decoder_sparse_step"), 1) == 0;
}

std::map<std::string, std::vector<int64_t>> vllm_tensors(const VllmClass& architecture,
                                                         const Json& config) {
  return Table(architecture, config).build();
}

}  // namespace kha
