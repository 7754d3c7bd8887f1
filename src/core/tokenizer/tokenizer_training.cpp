#include "kha/core/tokenizer_training.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/machine/worker_threads.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/merge_learner.h"
#include "core/tokenizer/tokenizer_json.h"
#include "core/tokenizer/word_counts.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_tokens = std::int64_t{1} << 24;

SplitPattern pattern_of(const std::string& name) {
  static const std::map<std::string, SplitPattern> patterns = {{"gpt2", SplitPattern::gpt2},
                                                               {"llama3", SplitPattern::llama3},
                                                               {"qwen", SplitPattern::qwen2}};
  if (const auto found = patterns.find(name); found != patterns.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, pattern] : patterns) names.push_back(known);
  fail({.what = "there is no split pattern `" + name + "`" + did_you_mean(name, names),
        .expected = "gpt2, llama3 or qwen"});
}

std::vector<std::string> all_special(const TokenizerTraining& training) {
  std::vector<std::string> all = {training.end};
  all.insert(all.end(), training.special.begin(), training.special.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty())
      fail({.what = "a special token has no text", .expected = "such as <|end|>"});
    if (std::count(all.begin(), all.end(), all[i]) > 1) {
      fail({.what = "a special token is named twice", .found = all[i]});
    }
  }
  return all;
}

void check_size(const TokenizerTraining& training, std::size_t special) {
  const auto least = static_cast<std::int64_t>(256 + special);
  if (training.vocab_size >= least && training.vocab_size <= most_tokens) return;
  fail({.what = "this is no size for a vocabulary",
        .where = "the vocabulary's size (--vocab-size)",
        .expected = std::to_string(least) + " (256 bytes, " + std::to_string(special) +
                    " special) to " + std::to_string(most_tokens),
        .found = std::to_string(training.vocab_size)});
}

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

Json split_by(SplitPattern pattern) {
  Json split = {{"type", "Split"},
                {"pattern", {{"Regex", regex_of(pattern)}}},
                {"behavior", "Isolated"},
                {"invert", false}};
  if (pattern != SplitPattern::gpt2) {
    return {{"type", "Sequence"}, {"pretokenizers", Json::array({std::move(split), byte_level()})}};
  }
  Json whole = byte_level();  // which has this pattern of its own
  whole["use_regex"] = true;
  return whole;
}

Json model(const LearntMerges& learnt, std::size_t special) {
  std::vector<std::string> letters;
  Json vocab = Json::object();
  auto& entries = vocab.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < learnt.tokens.size(); ++id) {
    letters.push_back(id < special ? learnt.tokens[id] : bytes_as_letters(learnt.tokens[id]));
    // All are different: looking for an earlier one each time would be quadratic.
    entries.emplace_back(letters.back(), id);
  }
  Json merges = Json::array();
  for (const auto& [left, right] : learnt.merges) {
    merges.push_back(Json::array({letters[left], letters[right]}));
  }
  return bpe_json(std::move(vocab), std::move(merges));
}

std::string tokenizer_json(const TokenizerTraining& training, SplitPattern pattern,
                           const LearntMerges& learnt, const std::vector<std::string>& special) {
  Json added = Json::array();
  for (std::size_t id = 0; id < special.size(); ++id) {
    added.push_back(special_token_json(static_cast<std::int64_t>(id), special[id]));
  }
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", training.nfc ? Json{{"type", "NFC"}} : Json(nullptr)},
                     {"pre_tokenizer", split_by(pattern)},
                     {"post_processor", nullptr},
                     {"decoder", byte_level()},
                     {"model", model(learnt, special.size())}};
  return file.dump(1) + "\n";
}

}  // namespace

TrainedTokenizer train_tokenizer(const TokenizerTraining& training,
                                 const TrainingProgress& progress) {
  const SplitPattern pattern = pattern_of(training.split);
  const std::vector<std::string> special = all_special(training);
  check_size(training, special.size());
  const auto tell = [&](TrainingStage stage, std::uint64_t done, std::uint64_t total) {
    if (progress) progress(stage, done, total);
  };
  const TextSource source = collect_text(
      training.text, [&](std::uint64_t bytes) { tell(TrainingStage::reading, bytes, 0); });
  const WordCounts words = count_words(
      source.documents, pattern, training.nfc,
      training.threads > 0 ? training.threads : usable_cores(),
      [&](std::uint64_t bytes) { tell(TrainingStage::counting, bytes, source.total_bytes); });
  const auto size = static_cast<std::size_t>(training.vocab_size);
  const LearntMerges learnt =
      learn_merges(words, special, size,
                   static_cast<std::uint64_t>(std::max<std::int64_t>(training.min_frequency, 0)),
                   [&](std::size_t tokens) { tell(TrainingStage::merging, tokens, size); });
  return {.tokenizer_json = tokenizer_json(training, pattern, learnt, special),
          .tokenizer_config_json = fast_tokenizer_config(training.end),
          .vocab_size = static_cast<std::int64_t>(learnt.tokens.size()),
          .merges = static_cast<std::int64_t>(learnt.merges.size()),
          .documents = static_cast<std::int64_t>(source.documents.size()),
          .bytes = source.total_bytes,
          .words = static_cast<std::int64_t>(words.words().size()),
          .skipped = source.skipped};
}

}  // namespace kha
