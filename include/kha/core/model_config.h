// A model as config.json describes it: transformers' keys of Qwen3, and the object `kha`.
//
// Only a model that transformers computes exactly carries a type of transformers (`qwen3`,
// `qwen3_moe`, `glm4_moe`); as long as a map is in it, or a router of another kind, it says
// `model_type: kha` (docs/design.md, "Models on disk").
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kha/core/expert_config.h"
#include "kha/core/knock_setting.h"
#include "kha/core/rotary_scaling.h"

namespace kha {

struct ModelConfig {
  int64_t vocab_size = 257;
  int64_t hidden_size = 256;        // d
  int64_t intermediate_size = 768;  // width of the feed-forward
  int64_t num_hidden_layers = 4;    // L
  int64_t num_attention_heads = 8;  // H
  int64_t num_key_value_heads = 2;  // H_kv, divides H
  int64_t head_dim = 32;            // D, even; H * D need not be d
  int64_t max_position_embeddings = 256;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = true;
  bool attention_bias = false;  // biases on q, k, v and o projections
  bool output_bias = true;      // where attention_bias is set: on the o projection too
  bool qk_norm = true;          // an RMSNorm of each query and key head (gqa)
  double initializer_range = 0.02;
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_id;  // config.json may hold one or a list
  std::optional<int64_t> pad_token_id;
  std::string dtype = "float32";  // storage type named by config.json
  std::string attention = "gqa";  // the attention system (attention_system.h)
  // Of systems that split or compress heads; 0 where the system has no such part.
  int64_t rope_head_dim = 0;     // d_R: rotated channels of a head (gqa: the first of D, 0 all;
                                 // gta: of D; mla, gla: beside D)
  int64_t kv_latent = 0;         // d_c: width of one latent head (mla, gla)
  int64_t latent_heads = 0;      // h_c: latent heads (gla), 1 in mla
  int64_t query_latent = 0;      // width of the queries' latent (mla, gla); 0: none
  int64_t value_head_dim = 0;    // D_v: width of a value head (mla, gla); 0: D
  int64_t shared_key_width = 0;  // queries and keys of all heads together (collaborative)
  bool content_bias = false;     // a term of the key alone in each logit (collaborative)
  // half_split: channel i pairs with i + w/2. interleaved: channel 2i pairs with 2i + 1.
  std::string rotary_layout = "half_split";
  RotaryScaling rotary_scaling;
  double latent_norm_eps = 0;  // of the latents' norms (mla, gla); 0: rms_norm_eps
  ExpertConfig experts;
  ModelKnocks knocks;

  // Queries a KV head serves: query head h reads KV head h / group().
  int64_t group() const { return num_attention_heads / num_key_value_heads; }
  // Channels that the rotary embedding turns.
  int64_t rotary_width() const { return rope_head_dim > 0 ? rope_head_dim : head_dim; }
  // The type of transformers whose keys and names describe the model below its maps.
  std::string base_type() const {
    if (experts.any() || qk_norm) return experts.base_type();
    return attention_bias && !output_bias ? "qwen2" : "llama";
  }
  // Computed exactly by that class of transformers.
  bool plain() const {
    if (attention != "gqa" || knocks.any(num_hidden_layers) || !experts.plain()) return false;
    if (rotary_layout != "half_split") return false;
    if (rope_head_dim > 0 && base_type() != "glm4_moe") return false;
    // Qwen3's output projection has a bias where the others have, Glm4-MoE's has none; and its
    // norms can be left out.
    if (base_type() == "glm4_moe") return !attention_bias || !output_bias;
    if (experts.any() && !qk_norm) return false;
    return !qk_norm || !attention_bias || output_bias;
  }
  double latent_eps() const { return latent_norm_eps > 0 ? latent_norm_eps : rms_norm_eps; }
  // D_v, whether named or not.
  int64_t value_width() const { return value_head_dim > 0 ? value_head_dim : head_dim; }
  bool operator==(const ModelConfig&) const = default;
};

// The sizes that some systems have and others have not, by key; 0 where a part is not there.
std::vector<std::pair<std::string, int64_t>> attention_parts(const ModelConfig& config);

// Checks every value and their fit; `where` is named in the message.
void validate(const ModelConfig& config, const std::string& where);

// Reads config.json text. Null and absent keys mean the default; old and new spellings of the
// rotary keys are read; what the model cannot compute is refused; unknown keys are refused with
// the nearest name. Fails with a sentence that names `where`.
ModelConfig parse_model_config(const std::string& json_text, const std::string& where);
ModelConfig read_model_config(const std::filesystem::path& model_folder);

// config.json text. A plain model names its class in transformers and has no `kha` object.
std::string to_config_json(const ModelConfig& config);
// generation_config.json text: the ids that end a text.
std::string to_generation_config_json(const ModelConfig& config);

}  // namespace kha
