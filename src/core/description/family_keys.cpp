#include "core/description/family_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/description/expert_keys.h"

namespace kha {
namespace {

struct Family {
  std::string type;
  std::string class_name;
  int64_t context;  // the class default
  bool latent = false;
};

const std::vector<Family> families{{"qwen3", "Qwen3ForCausalLM", 32768},
                                   {"qwen3_moe", "Qwen3MoeForCausalLM", 32768},
                                   {"glm4_moe", "Glm4MoeForCausalLM", 131072},
                                   {"qwen2", "Qwen2ForCausalLM", 32768},
                                   {"llama", "LlamaForCausalLM", 2048},
                                   {"mistral", "MistralForCausalLM", 131072},
                                   {"deepseek_v2", "DeepseekV2ForCausalLM", 2048, true},
                                   {"deepseek_v3", "DeepseekV3ForCausalLM", 4096, true}};

const Family* find(const std::string& type) {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const Family& family) { return family.type == type; });
  return found == families.end() ? nullptr : &*found;
}

void refuse_inner_bias(ObjectReader& in) {
  bool bias = false;
  in.read("mlp_bias", bias);
  if (bias) in.refuse("biases in the feed-forward are not supported", "mlp_bias false", "true");
}

// Absent means 4,096 to the class, null means none. A window as long as the context changes
// nothing.
void refuse_window(ObjectReader& in, int64_t context) {
  int64_t window = in.has("sliding_window") ? context : 4096;
  in.read("sliding_window", window);
  if (window >= context) return;
  in.refuse("sliding windows are not supported",
            fmt::format("sliding_window null, or at least max_position_embeddings {}", context),
            in.find("sliding_window") ? std::to_string(window)
                                      : "no such key, which means 4096 to transformers");
}

int64_t required(ObjectReader& in, const std::string& key) {
  in.require(key, "a whole number");
  int64_t value = 0;
  in.read(key, value);
  return value;
}

void read_latent(ObjectReader& in, const std::string& type, ModelConfig& c) {
  c.attention = "mla";
  c.latent_heads = 1;
  c.kv_latent = required(in, "kv_lora_rank");
  c.rope_head_dim = required(in, "qk_rope_head_dim");
  c.head_dim = required(in, "qk_nope_head_dim");
  c.value_head_dim = required(in, "v_head_dim");
  if (c.value_head_dim == c.head_dim) c.value_head_dim = 0;
  // Null means none; absent means 1,536 to the class.
  c.query_latent = in.has("q_lora_rank") ? 0 : 1536;
  in.read("q_lora_rank", c.query_latent);
  bool interleaved = true;
  if (type == "deepseek_v3") in.read("rope_interleave", interleaved);
  c.rotary_layout = interleaved ? "interleaved" : "half_split";
  // The classes leave the latents' norms at their default, whatever rms_norm_eps says.
  constexpr double class_eps = 1e-6;
  if (c.rms_norm_eps != class_eps) c.latent_norm_eps = class_eps;
  in.ignore({"rope_interleave", "qk_head_dim"});  // read above; follows from others
  read_latent_experts(in, type, c);
}

}  // namespace

bool is_plain_type(const std::string& type) {
  const Family* family = find(type);
  return family && !family->latent;
}

bool is_latent_type(const std::string& type) {
  const Family* family = find(type);
  return family && family->latent;
}

std::string type_list() {
  std::string list;
  for (const Family& family : families) list += (list.empty() ? "" : ", ") + family.type;
  return list;
}

std::string class_of(const std::string& type) { return find(type)->class_name; }

int64_t default_context(const std::string& type) { return find(type)->context; }

void read_family(ObjectReader& in, const std::string& type, ModelConfig& c) {
  c.qk_norm = type != "llama" && type != "mistral" && type != "qwen2";
  if (type == "qwen2") {
    c.attention_bias = true;  // always, whatever the key says
    c.output_bias = false;
  }
  if (type == "mistral") {
    c.attention_bias = false;
    refuse_window(in, c.max_position_embeddings);
  }
  if (type == "llama" || is_latent_type(type)) {
    refuse_inner_bias(in);
    in.ignore({"pretraining_tp"});
  }
  if (is_latent_type(type)) read_latent(in, type, c);
}

}  // namespace kha
