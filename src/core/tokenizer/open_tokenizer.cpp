#include <nlohmann/json.hpp>
#include <system_error>

#include "core/store/strict_json.h"
#include "core/store/text_of_file.h"
#include "core/tokenizer/bpe_tokenizer.h"
#include "core/tokenizer/json_field.h"
#include "core/tokenizer/tokenizer_folder.h"
#include "kha/core/byte_tokenizer.h"
#include "kha/core/error.h"
#include "kha/core/tokenizer.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using Json = JsonField::Json;

Json parsed(const std::string& text, const fs::path& file) {
  refuse_deep_json(text, file.string());
  Json read = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object()) parse_strict_json(text, file, "the tokenizer file");  // says where
  return read;
}

// Ids of another tokenizer would come out as other bytes, without an error.
bool is_byte_tokenizer(const Json& found) {
  static const Json wanted = Json::parse(ByteTokenizer::tokenizer_json());
  const auto same = [&](const char* key) {
    const Json::json_pointer pointer(key);
    return found.contains(pointer) && found.at(pointer) == wanted.at(pointer);
  };
  return same("/model/vocab") && same("/model/merges");
}

[[noreturn]] void fail_without_tokenizer(const fs::path& file, const fs::path& path) {
  fail({.what = "there is no tokenizer here",
        .where = file.string(),
        .expected = "a tokenizer.json, or a folder that holds one",
        .found = "no such file",
        .next = "check the path, or learn one: kha tokenizer train TEXT --vocab-size 8192 --to " +
                path.string()});
}

}  // namespace

std::shared_ptr<const Tokenizer> open_tokenizer(const fs::path& path) {
  if (path.empty()) return byte_tokenizer();
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "tokenizer.json" : path;
  if (!fs::exists(file, error)) fail_without_tokenizer(file, path);
  std::string text = text_of_file(file);
  const Json json = parsed(text, file);
  if (is_byte_tokenizer(json)) return byte_tokenizer();
  return std::make_shared<const BpeTokenizer>(file, std::move(text),
                                              JsonField(json, file.string(), ""));
}

}  // namespace kha
