#include "kha/core/model_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/description/expert_keys.h"
#include "core/description/family_keys.h"
#include "core/description/kha_keys.h"
#include "core/description/require.h"
#include "core/description/rotary_keys.h"
#include "kha/core/attention_system.h"
#include "kha/core/error.h"

namespace kha {
namespace {

constexpr int64_t most_layers = 10000;
constexpr int64_t most_size = int64_t{1} << 24;  // with a head, H x D: the rows of a projection

void require_size(int64_t value, const std::string& where, const std::string& key,
                  int64_t most = most_size) {
  require(value > 0 && value <= most, where, key, std::to_string(value),
          fmt::format("a whole number from 1 to {}", most));
}

void validate_sizes(const ModelConfig& c, const std::string& where) {
  require_size(c.vocab_size, where, "vocab_size");
  require_size(c.hidden_size, where, "hidden_size");
  require_size(c.intermediate_size, where, "intermediate_size");
  require_size(c.num_hidden_layers, where, "num_hidden_layers", most_layers);
  require_size(c.num_attention_heads, where, "num_attention_heads");
  require_size(c.num_key_value_heads, where, "num_key_value_heads");
  require_size(c.head_dim, where, "head_dim");
  require_size(c.max_position_embeddings, where, "max_position_embeddings");
  require(c.head_dim % 2 == 0, where, "head_dim", std::to_string(c.head_dim),
          "an even number: rotary embedding pairs the two halves of a head");
  require(c.num_attention_heads % c.num_key_value_heads == 0, where, "num_key_value_heads",
          fmt::format("{} query heads, {} KV heads", c.num_attention_heads, c.num_key_value_heads),
          "a divisor of num_attention_heads");
  require(c.num_attention_heads * c.head_dim <= most_size, where, "head_dim",
          fmt::format("{} query heads of width {}", c.num_attention_heads, c.head_dim),
          fmt::format("at most {} rows in a projection", most_size));
}

// Every count of parameters or bytes then fits 64 bits.
void validate_total(const ModelConfig& c, const std::string& where) {
  double attention = 0;
  for (const AttentionTensor& tensor : attention_declaration(c.attention, where).tensors(c)) {
    attention += static_cast<double>(tensor.outputs) * static_cast<double>(tensor.inputs + 1);
  }
  const double maps = 9.0 * c.head_dim * c.head_dim;
  const ExpertConfig& e = c.experts;
  const double mixture = static_cast<double>(e.count + e.shared) * (3.0 * e.width + 2.0);
  const double layer = attention + c.hidden_size * (3.0 * c.intermediate_size + mixture) + maps;
  const double total = c.num_hidden_layers * layer + 2.0 * c.vocab_size * c.hidden_size;
  require(total < 0x1p52, where, "num_hidden_layers", fmt::format("{:.2g} parameters", total),
          "sizes that multiply to fewer than 2^52 parameters");
}

void validate_token_ids(const ModelConfig& c, const std::string& where) {
  const auto check = [&](int64_t id, const std::string& key) {
    require(id >= 0 && id < c.vocab_size, where, key, std::to_string(id),
            fmt::format("an id from 0 to {}", c.vocab_size - 1));
  };
  if (c.bos_token_id) check(*c.bos_token_id, "bos_token_id");
  if (c.pad_token_id) check(*c.pad_token_id, "pad_token_id");
  for (const int64_t id : c.eos_token_id) check(id, "eos_token_id");
}

void validate_numbers(const ModelConfig& c, const std::string& where) {
  require(c.rms_norm_eps > 0 && c.rms_norm_eps < 1, where, "rms_norm_eps",
          fmt::format("{}", c.rms_norm_eps), "a number between 0 and 1");
  require(c.rope_theta > 1 && c.rope_theta < 1e15, where, "rope_theta",
          fmt::format("{}", c.rope_theta), "a number above 1");
  require(c.rotary_layout == "half_split" || c.rotary_layout == "interleaved", where,
          "rotary_layout", c.rotary_layout,
          "half_split (channel i pairs with i + w/2) or interleaved (channel 2i with 2i + 1)");
  require(c.initializer_range > 0 && c.initializer_range < 10, where, "initializer_range",
          fmt::format("{}", c.initializer_range), "a number between 0 and 10");
}

void validate_maps(const ModelConfig& c, const std::string& where) {
  for (const auto& [layer, knocks] : c.knocks.layers) {
    require(layer >= 0 && layer < c.num_hidden_layers, where, "kha.layers", std::to_string(layer),
            fmt::format("a layer from 0 to {}", c.num_hidden_layers - 1));
  }
  const AttentionDeclaration& system = attention_declaration(c.attention, where);
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    check_legal(system, c.knocks.at(layer), fmt::format("{}, layer {}", where, layer));
  }
}

void add_token_ids(nlohmann::ordered_json& json, const ModelConfig& c) {
  json["bos_token_id"] = c.bos_token_id ? nlohmann::ordered_json(*c.bos_token_id) : nullptr;
  if (c.eos_token_id.size() == 1) {
    json["eos_token_id"] = c.eos_token_id[0];
  } else {
    json["eos_token_id"] =
        c.eos_token_id.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(c.eos_token_id);
  }
  json["pad_token_id"] = c.pad_token_id ? nlohmann::ordered_json(*c.pad_token_id) : nullptr;
}

void write_sizes(nlohmann::ordered_json& json, const ModelConfig& c) {
  json["vocab_size"] = c.vocab_size;
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.intermediate_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_key_value_heads"] = c.num_key_value_heads;
  json["head_dim"] = c.head_dim;
}

}  // namespace

void validate(const ModelConfig& c, const std::string& where) {
  validate_sizes(c, where);
  attention_declaration(c.attention, where).check(c, where);
  validate_experts(c, where);
  validate_rotary(c, where);
  validate_total(c, where);
  validate_token_ids(c, where);
  validate_numbers(c, where);
  validate_maps(c, where);
}

std::string to_config_json(const ModelConfig& c) {
  nlohmann::ordered_json json;
  json["architectures"] = {c.plain() ? class_of(c.base_type()) : "KhaForCausalLM"};
  json["model_type"] = c.plain() ? c.base_type() : "kha";
  write_sizes(json, c);
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = c.rms_norm_eps;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  json["attention_bias"] = c.attention_bias;
  json["attention_dropout"] = 0.0;
  json["use_sliding_window"] = false;
  json["sliding_window"] = nullptr;
  json["initializer_range"] = c.initializer_range;
  json["use_cache"] = true;
  add_token_ids(json, c);
  json["torch_dtype"] = c.dtype;
  write_rotary(json, c);
  write_experts(json, c);
  if (!c.plain()) write_kha(json, c);
  return json.dump(2) + "\n";
}

std::string to_generation_config_json(const ModelConfig& c) {
  nlohmann::ordered_json json;
  json["_from_model_config"] = true;
  add_token_ids(json, c);
  return json.dump(2) + "\n";
}

}  // namespace kha
