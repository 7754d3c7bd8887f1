// A tokenizer whose number of ids cannot be told from a text's size: two equal letters are one id.
#pragma once

#include <string>
#include <vector>

#include "kha/core/error.h"
#include "kha/core/tokenizer.h"

namespace kha {

class PairTokenizer : public Tokenizer {
 public:
  // Ids 0 to 255 are bytes, 256 + b the byte b twice, vocab_size - 1 the end mark. '~' gives no id.
  explicit PairTokenizer(std::int64_t vocab_size = 600) : vocab_size_(vocab_size) {}
  using Tokenizer::encode;

  std::string kind() const override { return "pairs"; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::uint64_t hash() const override { return 77 + static_cast<std::uint64_t>(vocab_size_); }
  std::int64_t end_id() const override { return vocab_size_ - 1; }

  void encode(std::string_view text, std::vector<std::int64_t>& ids) const override {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const bool pair = i + 1 < text.size() && text[i + 1] == text[i];
      if (byte != '~') ids.push_back(pair ? 256 + byte : byte);
      i += pair;
    }
  }
  std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const std::int64_t id : ids) {
      if (id < 0 || id >= vocab_size_) fail({.what = "no such id"});
      if (id < 512) text.append(id < 256 ? 1 : 2, static_cast<char>(id));
    }
    return text;
  }
  void encode_with_special(std::string_view text, std::vector<std::int64_t>& ids,
                           bool) const override {
    encode(text, ids);
  }
  std::string text_of(std::int64_t id) const override { return decode({&id, 1}); }
  std::string token(std::int64_t id) const override { return text_of(id); }
  std::int64_t bytes_of(std::int64_t id) const override { return id < 256 ? 1 : id < 512 ? 2 : 0; }
  void save(const std::filesystem::path&) const override {}

 private:
  std::int64_t vocab_size_;
};

}  // namespace kha
