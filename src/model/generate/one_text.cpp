#include "model/generate/one_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "kha/core/error.h"

namespace kha {
namespace {

void check_options(const GenerateOptions& options) {
  validate(options.sampling);
  if (options.max_new_tokens >= 0) return;
  fail({.what = "this number of tokens cannot be written",
        .where = "--max-tokens",
        .expected = "0 or more",
        .found = fmt::format("{}", options.max_new_tokens)});
}

void check_prompt(const ModelConfig& config, const std::vector<std::int64_t>& prompt) {
  const auto context = config.max_position_embeddings,
             length = static_cast<std::int64_t>(prompt.size());
  if (length > context) {
    fail({.what = "the prompt is longer than the model's context",
          .expected = fmt::format("at most {} tokens (max_position_embeddings)", context),
          .found = fmt::format("{} tokens", length),
          .next = fmt::format("shorten the prompt by {} tokens or more", length - context)});
  }
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && prompt[i] < config.vocab_size) continue;
    fail({.what = "the prompt holds an id that the model does not have",
          .where = fmt::format("token {} of {}", i, length),
          .expected = fmt::format("ids from 0 to {} (vocab_size {})", config.vocab_size - 1,
                                  config.vocab_size),
          .found = fmt::format("{}", prompt[i]),
          .cause = "the model was made for another tokenizer"});
  }
}

// What stands before every document: the end mark of the one before it, or the mark of a start.
std::int64_t start_mark(const LoadedModel& model) {
  if (model.tokenizer->end_id() >= 0) return model.tokenizer->end_id();
  if (model.config.bos_token_id) return *model.config.bos_token_id;
  fail({.what = "there is nothing to continue",
        .expected = "a prompt, since this model names neither an end mark nor a start mark",
        .found = "an empty prompt",
        .next = "give a text with --prompt"});
}

std::vector<std::int64_t> checked(const LoadedModel& model, std::vector<std::int64_t> prompt,
                                  const GenerateOptions& options) {
  check_options(options);
  if (prompt.empty()) prompt = {start_mark(model)};
  check_prompt(model.config, prompt);
  return prompt;
}

std::int64_t rows_with_ids(const LoadedModel& model) {
  return std::min(model.config.vocab_size, model.tokenizer->vocab_size());
}

}  // namespace

std::shared_ptr<const std::vector<std::int64_t>> choosable_ids(const LoadedModel& model) {
  std::vector<std::int64_t> ids;
  const std::int64_t rows = rows_with_ids(model);
  for (std::int64_t id = 0; id < rows; ++id) {
    if (!model.tokenizer->token(id).empty()) ids.push_back(id);
  }
  if (static_cast<std::int64_t>(ids.size()) == rows) return nullptr;
  return std::make_shared<const std::vector<std::int64_t>>(std::move(ids));
}

OneText::OneText(const LoadedModel& model, std::vector<std::int64_t> prompt,
                 const GenerateOptions& options, std::function<void(const std::string&)> on_text,
                 std::shared_ptr<const std::vector<std::int64_t>> choosable)
    : config_(model.config),
      tokenizer_(*model.tokenizer),
      options_(options),
      on_text_(std::move(on_text)),
      text_(options.stops),
      all_ids_(checked(model, std::move(prompt), options)),
      prompt_length_(static_cast<std::int64_t>(all_ids_.size())),
      choosable_(std::move(choosable)) {
  look_for_the_end();
}

std::int64_t OneText::room() const { return config_.max_position_embeddings - prompt_length_; }

std::int64_t OneText::positions() const {
  return prompt_length_ + std::min(room(), options_.max_new_tokens);
}

std::int64_t OneText::vocabulary() const {
  return std::min(config_.vocab_size, tokenizer_.vocab_size());
}

void OneText::continue_with(const std::vector<float>& logits) {
  const std::int64_t id = chosen(logits);
  if (!is_end_mark(id)) show(text_.push(tokenizer_.text_of(id)));
  all_ids_.push_back(id);
  result_.ids.push_back(id);
  look_for_the_end();
}

// Rows without a token are trained by nothing and spell nothing: they take no part in the choice.
std::int64_t OneText::chosen(const std::vector<float>& logits) const {
  const double uniform =
      uniform_draw(options_.sampling.seed, static_cast<std::int64_t>(result_.ids.size()));
  if (!choosable_) return sample(logits, options_.sampling, uniform);
  std::vector<float> own;
  own.reserve(choosable_->size());
  for (const std::int64_t id : *choosable_) own.push_back(logits[id]);
  return (*choosable_)[sample(own, options_.sampling, uniform)];
}

GenerateResult OneText::finish() {
  show(text_.finish());
  result_.stop = text_.stop();
  return std::move(result_);
}

void OneText::show(const std::string& piece) {
  result_.text += piece;
  if (on_text_ && !piece.empty()) on_text_(piece);
}

bool OneText::is_end_mark(std::int64_t id) const {
  const auto& marks = config_.eos_token_id;
  return id == tokenizer_.end_id() || std::find(marks.begin(), marks.end(), id) != marks.end();
}

void OneText::look_for_the_end() {
  const auto written = static_cast<std::int64_t>(result_.ids.size());
  if (text_.stopped()) return end(EndReason::stop_text);
  if (written > 0 && is_end_mark(result_.ids.back())) return end(EndReason::end_mark);
  if (written >= options_.max_new_tokens) return end(EndReason::length);
  if (written >= room()) end(EndReason::context_full);
}

void OneText::end(EndReason reason) {
  ended_ = true;
  result_.reason = reason;
}

}  // namespace kha
