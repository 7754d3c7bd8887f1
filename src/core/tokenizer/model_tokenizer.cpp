#include "kha/core/model_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "kha/core/byte_tokenizer.h"
#include "kha/core/error.h"

namespace kha {
namespace {

// The ids from `first` on with what they spell, a few of them.
std::string listed(const Tokenizer& tokenizer, std::int64_t first) {
  constexpr std::int64_t most = 5;
  const std::int64_t end = std::min(tokenizer.vocab_size(), first + most);
  std::string text;
  for (std::int64_t id = first; id < end; ++id) {
    const std::string spelt = tokenizer.decode(std::array{id});
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", id,
                        spelt.empty() ? " (special)" : fmt::format(" '{}'", spelt));
  }
  return end < tokenizer.vocab_size() ? text + ", …" : text;
}

}  // namespace

void check_vocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size,
                      const std::filesystem::path& model_folder) {
  if (tokenizer.vocab_size() <= vocab_size) return;
  fail({.what = "the tokenizer has ids for which the model has no row",
        .where = model_folder.string(),
        .expected = fmt::format("ids below vocab_size {}", vocab_size),
        .found = fmt::format("{} ids more: {}", tokenizer.vocab_size() - vocab_size,
                             listed(tokenizer, vocab_size)),
        .cause = "the tokenizer is another model's, or tokens were added to it alone",
        .next = "use the tokenizer that came with the model"});
}

std::shared_ptr<const Tokenizer> open_model_tokenizer(const std::filesystem::path& model_folder,
                                                      std::int64_t vocab_size) {
  std::error_code error;
  if (std::filesystem::exists(model_folder / "tokenizer.json", error)) {
    auto tokenizer = open_tokenizer(model_folder);
    check_vocabulary(*tokenizer, vocab_size, model_folder);
    return tokenizer;
  }
  if (vocab_size == ByteTokenizer::vocab_size) return byte_tokenizer();
  fail({.what = "the model has no tokenizer",
        .where = (model_folder / "tokenizer.json").string(),
        .expected = fmt::format("the tokenizer of its {} ids", vocab_size),
        .found = "no such file",
        .next = "copy tokenizer.json and tokenizer_config.json of the model into its folder"});
}

}  // namespace kha
