// An exported model run by transformers, beside the engine's logits of the model that it came from.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kha/core/export.h"

namespace kha::cli {

struct ExportProof {
  bool equal = false;
  std::string text;             // for the reader, lines
  nlohmann::ordered_json json;  // the same figures
};

// Fails where a program that verify_export runs is not installed: to be asked before long work.
void require_verifiers();

// Log-probabilities of the first tokens of a text (none: the model's tokenizer.json), in float32
// and float64, and a greedy continuation. `written` is what made `exported`. Errors: an
// engine or companion that is not installed, or that fails.
ExportProof verify_export(const std::filesystem::path& model, const std::filesystem::path& exported,
                          const ExportReport& written, const std::vector<std::string>& text);

}  // namespace kha::cli
