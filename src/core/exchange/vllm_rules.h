// Would vLLM load a folder, and compute it as transformers does? vLLM itself is not run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kha {

// A sentence for each rule of vLLM's loaders and classes that config.json and the tensors of the
// folder break; empty: none. Rules: a class of this name; keys whose default is another model;
// every tensor that the class asks for, in its shape, and none that it would drop; selection
// biases in float32. Errors: those of ModelFiles::open, a config.json that is no JSON object.
std::vector<std::string> broken_vllm_rules(const std::filesystem::path& folder);

}  // namespace kha
