// The byte tokenizer: byte b is id b, the end mark that closes every document is 256.
//
// Every file can be read with it, nothing is ever unknown, and decoding gives back the same bytes.
// The tokenizer.json written beside a model is a byte-level BPE without merges, which gives the
// same ids in the `tokenizers` package. One difference is wanted there: that package turns the
// written-out text "<|end|>" into the end mark, while encode() keeps it as the seven bytes it is,
// so that text from a file can never end a document.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kha {

class ByteTokenizer {
 public:
  static constexpr std::int64_t end_id = 256;
  static constexpr std::int64_t vocab_size = 257;
  static constexpr std::string_view end_text = "<|end|>";

  // One id a byte; no end mark is added.
  static std::vector<std::int64_t> encode(std::string_view bytes);

  // The bytes of the ids; the end mark gives none. Throws Error for an id outside [0, 257).
  static std::string decode(std::span<const std::int64_t> ids);

  // Text of two files of a model directory, each ending in a newline; the same on every machine.
  static std::string tokenizer_json();
  static std::string tokenizer_config_json();

  // XXH3-64 of tokenizer_json(): what token shards carry to say which tokenizer made them.
  static std::uint64_t hash();
};

}  // namespace kha
