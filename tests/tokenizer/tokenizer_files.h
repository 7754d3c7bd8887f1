// Small tokenizer.json files, made by the tests themselves.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tokenizer/byte_alphabet.h"
#include "kha/core/temporary_folder.h"
#include "kha/core/tokenizer.h"

namespace kha {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int64_t>;

inline Json byte_level_part() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
}

// 256 bytes as ids 0 to 255, then one id a merge; sides and sums are given as plain ASCII.
inline Json byte_level_file(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object(), list = Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[byte_as_letter(static_cast<unsigned char>(byte))] = byte;
  }
  for (const auto& [left, right] : merges) {
    vocab[bytes_as_letters(left + right)] = vocab.size();
    list.push_back(Json::array({bytes_as_letters(left), bytes_as_letters(right)}));
  }
  return {{"added_tokens", Json::array()},
          {"pre_tokenizer", byte_level_part()},
          {"decoder", byte_level_part()},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline Json added(std::int64_t id, const std::string& content, bool special = false) {
  return {{"id", id}, {"content", content}, {"special", special}};
}

// A folder with a tokenizer.json in it.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(const Json& json) : folder_("tokenizer-test") {
    write("tokenizer.json", json.dump(1));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name, std::ios::binary) << text;
  }
  std::shared_ptr<const Tokenizer> open() const { return open_tokenizer(path()); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

inline std::shared_ptr<const Tokenizer> opened(const Json& json) {
  return TokenizerFolder(json).open();
}

}  // namespace kha
