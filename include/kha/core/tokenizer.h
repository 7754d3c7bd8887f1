// A text's way to token ids and back, whatever the kind: bytes, or a tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kha {

// Constant functions may be called by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // For people: "bytes", "byte-level BPE", ...
  virtual std::string kind() const = 0;
  // Every id is below it. Ids without a token can lie below it too.
  virtual std::int64_t vocab_size() const = 0;
  // XXH3-64 of the text of tokenizer.json: what token shards and runs carry.
  virtual std::uint64_t hash() const = 0;
  // The id that closes a document and ends a generated text. -1: this tokenizer names none.
  virtual std::int64_t end_id() const = 0;

  // Appends the ids of a whole document's text to `ids`. Text of a file never becomes the end mark
  // or another special token; nothing is put before or behind it. Text is bytes: those that make no
  // UTF-8 become tokens of bytes where the tokenizer has them, else its unknown token. Throws Error
  // for text that it can spell in no way.
  virtual void encode(std::string_view text, std::vector<std::int64_t>& ids) const = 0;
  std::vector<std::int64_t> encode(std::string_view text) const;
  // The same for text that may hold marks, such as a filled chat template: marks that are written
  // out in it become their ids. With `with_around`, the tokens that tokenizer.json puts around a
  // text (the start mark of Llama, say) stand around it. What the `tokenizers` package gives.
  virtual void encode_with_special(std::string_view text, std::vector<std::int64_t>& ids,
                                   bool with_around) const = 0;

  // The bytes of the ids as one text; special tokens give none. Bytes come out as they are, even
  // where they make no UTF-8. Throws Error for an id that is not in [0, vocab_size).
  virtual std::string decode(std::span<const std::int64_t> ids) const = 0;
  // The bytes of text that one id spells, wherever it stands; none for special tokens. Those of
  // several ids behind each other are decode() of them, but for what some tokenizers drop at the
  // beginning and end of a text (the first blank of Llama 2). Throws as decode().
  virtual std::string text_of(std::int64_t id) const = 0;
  // How many they are: what loss a byte is counted with. Throws as decode().
  virtual std::int64_t bytes_of(std::int64_t id) const = 0;
  // The token as its file spells it, for people; empty for an id without one. Throws as decode().
  virtual std::string token(std::int64_t id) const = 0;

  // Writes tokenizer.json and tokenizer_config.json (and what else was beside them) into a folder.
  virtual void save(const std::filesystem::path& folder) const = 0;
};

// Bytes and an end mark (kha/core/byte_tokenizer.h).
std::shared_ptr<const Tokenizer> byte_tokenizer();

// The tokenizer of a tokenizer.json, or of a folder that holds one; an empty path is
// byte_tokenizer(). Throws Error when there is none, or when a part of it is not understood.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace kha
