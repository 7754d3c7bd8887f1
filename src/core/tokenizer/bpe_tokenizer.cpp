#include "core/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/tokenizer/tokenizer_folder.h"
#include "kha/core/checksum.h"
#include "kha/core/error.h"

namespace kha {
namespace {

// What ends a text where no file beside tokenizer.json says it.
constexpr std::array end_names = {"<|endoftext|>", "</s>",    "<|end_of_text|>",
                                  "<|im_end|>",    "<|end|>", "<eos>",
                                  "<|eot_id|>",    "[EOS]",   "<|eos|>"};

}  // namespace

BpeTokenizer::BpeTokenizer(std::filesystem::path file, std::string text, const JsonField& json)
    : file_(std::move(file)),
      json_text_(std::move(text)),
      normaliser_(json.at("normalizer")),
      pre_tokenizer_(json.at("pre_tokenizer")),
      model_(json.at("model"), pre_tokenizer_.byte_level()),
      added_(json.at("added_tokens"), model_, normaliser_),
      around_(tokens_around(json.at("post_processor"))),
      decoder_(json.at("decoder")) {
  hash_ = xxh3_64(std::as_bytes(std::span<const char>(json_text_)));
  list_tokens();
  for (const AddedToken& token : added_.all()) {
    if (token.special) model_.keep_from_text(token.content);
  }
  const auto id_of = [&](std::string_view name) -> std::int64_t {
    for (const AddedToken& token : added_.all()) {
      if (token.content == name) return token.id;
    }
    const auto in_model = model_.find(name);
    return in_model ? std::int64_t{*in_model} : -1;
  };
  if (const auto named = named_end_token(file_.parent_path())) {
    end_id_ = id_of(*named);
    if (end_id_ < 0) {
      json.refuse("there is no token " + *named + ", which is the eos_token of the files beside it",
                  "the end mark in /added_tokens or /model/vocab");
    }
    return;
  }
  for (const AddedToken& token : added_.all()) {
    const bool known =
        std::find(end_names.begin(), end_names.end(), token.content) != end_names.end();
    if (known && token.special && end_id_ < 0) end_id_ = token.id;
  }
}

void BpeTokenizer::list_tokens() {
  const auto put = [&](std::uint32_t id, std::string_view text, bool special) {
    if (id >= tokens_.size()) tokens_.resize(std::size_t{id} + 1);
    tokens_[id] = {std::string(text), decoder_.spelled(text), true, special};
  };
  for (const auto& [text, id] : model_.vocabulary()) put(id, text, false);
  for (const AddedToken& token : added_.all()) put(token.id, token.spelled, token.special);
}

std::string BpeTokenizer::kind() const {
  return pre_tokenizer_.byte_level() ? "byte-level BPE" : "character-level BPE";
}

const BpeTokenizer::Token& BpeTokenizer::checked(std::int64_t id) const {
  if (id >= 0 && id < vocab_size()) return tokens_[static_cast<std::size_t>(id)];
  fail({.what = fmt::format("the tokenizer cannot decode id {}", id),
        .where = file_.string(),
        .expected = fmt::format("ids from 0 to {}", vocab_size() - 1),
        .found = std::to_string(id),
        .cause = "the ids come from a model with another tokenizer, or from rows of its embedding "
                 "that have no token",
        .next = "decode them with the tokenizer.json of that model"});
}

std::string BpeTokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  bool first = true;
  for (const std::int64_t id : ids) {
    const Token& token = checked(id);
    if (!token.exists || token.special) continue;
    if (!first && decoder_.separates_tokens()) text += ' ';
    text += first ? decoder_.spelled_first(token.text) : token.spelled;
    first = false;
  }
  decoder_.trim(text);
  return text;
}

std::string BpeTokenizer::text_of(std::int64_t id) const {
  const Token& token = checked(id);
  return token.special ? "" : token.spelled;
}

std::int64_t BpeTokenizer::bytes_of(std::int64_t id) const {
  const Token& token = checked(id);
  return token.special ? 0 : static_cast<std::int64_t>(token.spelled.size());
}

std::string BpeTokenizer::token(std::int64_t id) const { return checked(id).text; }

void BpeTokenizer::save(const std::filesystem::path& folder) const {
  copy_tokenizer(file_.parent_path(), json_text_, folder);
}

}  // namespace kha
