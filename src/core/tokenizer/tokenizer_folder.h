// The files that lie beside a tokenizer.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kha {

// The text of the end mark: eos_token of tokenizer_config.json, else of special_tokens_map.json.
// Nothing where neither names one. Throws Error for a file that is no JSON object.
std::optional<std::string> named_end_token(const std::filesystem::path& folder);

// Copies what belongs to a tokenizer, byte for byte. tokenizer.json itself comes as `text`.
void copy_tokenizer(const std::filesystem::path& from, const std::string& text,
                    const std::filesystem::path& to);

}  // namespace kha
