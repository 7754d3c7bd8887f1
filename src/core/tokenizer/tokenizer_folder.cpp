#include "core/tokenizer/tokenizer_folder.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "core/store/strict_json.h"
#include "core/store/text_of_file.h"
#include "kha/core/atomic_file.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

bool is_beside_tokenizer(const std::string& name) {
  for (const char* const known :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt",
        "vocab.json", "tokenizer.model"}) {
    if (name == known) return true;
  }
  return name.starts_with("chat_template");
}

std::optional<std::string> token_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> named_end_token(const fs::path& folder) {
  for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    std::error_code error;
    const fs::path file = folder / name;
    if (!fs::is_regular_file(file, error)) continue;
    const auto json = parse_strict_json(text_of_file(file), file, "the tokenizer's settings");
    const auto found = json.find("eos_token");
    if (found == json.end()) continue;
    if (const auto text = token_text(*found)) return text;
  }
  return std::nullopt;
}

void copy_tokenizer(const fs::path& from, const std::string& text, const fs::path& to) {
  std::error_code error;
  write_file_atomically(to / "tokenizer.json", text);
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string();
    if (!is_beside_tokenizer(name)) continue;
    if (entry.is_directory(error)) {  // chat_templates/*.jinja
      fs::create_directories(to / name);
      for (const auto& inner : fs::directory_iterator(entry.path(), error)) {
        if (!inner.is_regular_file(error)) continue;
        write_file_atomically(to / name / inner.path().filename(), text_of_file(inner.path()));
      }
    } else {
      write_file_atomically(to / name, text_of_file(entry.path()));
    }
  }
}

}  // namespace kha
