// The byte tokenizer behind the interface that all tokenizers share.
#include "core/tokenizer/byte_alphabet.h"
#include "kha/core/atomic_file.h"
#include "kha/core/byte_tokenizer.h"
#include "kha/core/tokenizer.h"

namespace kha {
namespace {

class Bytes : public Tokenizer {
 public:
  using Tokenizer::encode;

  std::string kind() const override { return "bytes"; }
  std::int64_t vocab_size() const override { return ByteTokenizer::vocab_size; }
  std::uint64_t hash() const override { return hash_; }
  std::int64_t end_id() const override { return ByteTokenizer::end_id; }

  void encode(std::string_view text, std::vector<std::int64_t>& ids) const override {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
  std::string decode(std::span<const std::int64_t> ids) const override {
    return ByteTokenizer::decode(ids);
  }
  void encode_with_special(std::string_view text, std::vector<std::int64_t>& ids,
                           bool) const override {
    for (std::size_t mark; (mark = text.find(ByteTokenizer::end_text)) != std::string_view::npos;) {
      encode(text.substr(0, mark), ids);
      ids.push_back(ByteTokenizer::end_id);
      text.remove_prefix(mark + ByteTokenizer::end_text.size());
    }
    encode(text, ids);
  }
  std::string text_of(std::int64_t id) const override { return ByteTokenizer::decode({&id, 1}); }
  std::string token(std::int64_t id) const override {
    const std::string text = text_of(id);  // also checks the id
    if (id == ByteTokenizer::end_id) return std::string(ByteTokenizer::end_text);
    return bytes_as_letters(text);
  }
  std::int64_t bytes_of(std::int64_t id) const override {
    return id == ByteTokenizer::end_id ? 0 : 1;
  }

  void save(const std::filesystem::path& folder) const override {
    write_file_atomically(folder / "tokenizer.json", ByteTokenizer::tokenizer_json());
    write_file_atomically(folder / "tokenizer_config.json", ByteTokenizer::tokenizer_config_json());
  }

 private:
  std::uint64_t hash_ = ByteTokenizer::hash();
};

}  // namespace

std::shared_ptr<const Tokenizer> byte_tokenizer() {
  static const auto tokenizer = std::make_shared<const Bytes>();
  return tokenizer;
}

}  // namespace kha
