#include <nlohmann/json.hpp>
#include <system_error>

#include "kha/core/byte_tokenizer.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"
#include "kha/core/tokenizer.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& file) {
  const MappedFile mapped = MappedFile::open(file);
  const auto* text = reinterpret_cast<const char*>(mapped.bytes().data());
  json read = json::parse(text, text + mapped.bytes().size(), nullptr, /*allow_exceptions=*/false);
  if (read.is_object()) return read;
  fail({.what = "the tokenizer file is not a JSON object",
        .where = file.string(),
        .next = "name a tokenizer.json, or the folder that holds one"});
}

// Ids of another tokenizer would come out as other bytes, without an error.
bool is_byte_tokenizer(const json& found) {
  const json wanted = json::parse(ByteTokenizer::tokenizer_json());
  const auto same = [&](const char* key) {
    const json::json_pointer pointer(key);
    return found.contains(pointer) && found.at(pointer) == wanted.at(pointer);
  };
  return same("/model/vocab") && same("/model/merges");
}

}  // namespace

std::shared_ptr<const Tokenizer> open_tokenizer(const fs::path& path) {
  if (path.empty()) return byte_tokenizer();
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "tokenizer.json" : path;
  if (is_byte_tokenizer(read_json(file))) return byte_tokenizer();
  fail({.what = "this tokenizer is not read here",
        .where = file.string(),
        .expected = "the byte tokenizer: 256 bytes and the end mark, no merges"});
}

}  // namespace kha
