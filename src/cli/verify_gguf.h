// An exported GGUF file run by llama.cpp, beside the engine's logits of the model it came from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/export_gguf.h"
#include "cli/verify_export.h"

namespace kha::cli {

// Fails where a program that verify_gguf runs is not installed: to be asked before long work.
void require_gguf_verifiers();

// Log-probabilities of the first tokens of a text, a greedy continuation with a cache in float32,
// and the ids of some 200 texts in both tokenizers. The proof's json is null where llama-cpp-python
// is not installed; the text says so. Errors: as verify_export.
ExportProof verify_gguf(const std::filesystem::path& model, const std::filesystem::path& file,
                        const GgufFile& written, const std::string& dtype,
                        const std::vector<std::string>& text);

}  // namespace kha::cli
