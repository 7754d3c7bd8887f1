// A model as one GGUF file, through the companion kha-gguf-export.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "kha/core/export.h"

namespace kha::cli {

struct GgufFile {
  ExportReport plain;           // of the plain model that the file holds
  nlohmann::ordered_json file;  // architecture, tensors, types, bytes, tokenizer, warnings
};

// The plain model goes into a hidden folder beside `out`, the companion makes the file of it, and
// one rename puts that under the name. `dtype`: float32, float16, bfloat16 or q8_0; empty: as
// stored. Errors: as export_to_hugging_face; a tokenizer or an architecture that llama.cpp does not
// have; the companion is not installed; `out` exists.
GgufFile export_to_gguf(const std::filesystem::path& model, const std::filesystem::path& out,
                        const std::string& dtype);

// Lines for the reader, each with its line break.
std::string in_words(const GgufFile& written, const std::string& model, const std::string& out);

}  // namespace kha::cli
