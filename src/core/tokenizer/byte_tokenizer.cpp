#include "kha/core/byte_tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/tokenizer_json.h"
#include "kha/core/checksum.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

Json byte_vocabulary() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[byte_as_letter(static_cast<unsigned char>(byte))] = byte;
  }
  return vocab;
}

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

}  // namespace

std::vector<std::int64_t> ByteTokenizer::encode(std::string_view bytes) {
  std::vector<std::int64_t> ids(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) ids[i] = static_cast<unsigned char>(bytes[i]);
  return ids;
}

std::string ByteTokenizer::decode(std::span<const std::int64_t> ids) {
  std::string bytes;
  bytes.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      fail({.what = "the byte tokenizer cannot decode id " + std::to_string(ids[i]),
            .where = "position " + std::to_string(i) + " of " + std::to_string(ids.size()) + " ids",
            .expected = "ids from 0 to 255, or the end mark 256",
            .found = std::to_string(ids[i]),
            .cause = "the ids come from a model with another tokenizer",
            .next = "decode them with the tokenizer.json of that model"});
    }
    if (ids[i] != end_id) bytes += static_cast<char>(ids[i]);
  }
  return bytes;
}

std::string ByteTokenizer::tokenizer_json() {
  const Json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({special_token_json(end_id, std::string(end_text))})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level()},
      {"post_processor", nullptr},
      {"decoder", byte_level()},
      {"model", bpe_json(byte_vocabulary(), Json::array())}};
  return file.dump(2) + "\n";
}

std::string ByteTokenizer::tokenizer_config_json() {
  return fast_tokenizer_config(std::string(end_text));
}

std::uint64_t ByteTokenizer::hash() {
  const std::string json = tokenizer_json();
  return xxh3_64(std::as_bytes(std::span<const char>(json)));
}

}  // namespace kha
