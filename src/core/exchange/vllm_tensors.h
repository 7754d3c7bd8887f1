// The tensors that vLLM's classes ask a checkpoint for, from the keys of config.json alone.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kha {

// One class of vLLM: what it makes of config.json where the classes differ.
struct VllmClass {
  std::string name;          // "Qwen3ForCausalLM"
  bool latent = false;       // projections and norms of latent attention
  bool ties_head = true;     // false: it has an output matrix whatever tie_word_embeddings says
  bool always_bias = false;  // q, k and v have biases whatever attention_bias says
  bool output_bias = false;  // attention_bias means o_proj too
  std::string head_norms = "no";  // "yes", "no", or the key that says
  std::string experts = "";       // the key of their number; empty: dense layers alone
};

// nullptr: vLLM has no class of this name that an export is for.
const VllmClass* vllm_class(const std::string& name);

// Name and shape of every tensor that the class asks for. `config`: keys that vllm_rules has found
// to be there.
std::map<std::string, std::vector<int64_t>> vllm_tensors(const VllmClass& architecture,
                                                         const nlohmann::json& config);

// A whole number of config.json; 0 where the key is missing, null or something else.
int64_t whole_number(const nlohmann::json& config, const std::string& key);

// Whether the feed-forward of a layer is a mixture of experts.
bool vllm_routes(const VllmClass& architecture, const nlohmann::json& config, int64_t layer);

}  // namespace kha
