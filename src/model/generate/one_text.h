// One text while it is written: its ids, what is shown of it, and when it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kha/core/text_stream.h"
#include "model/generate/generate.h"

namespace kha {

// The ids that have a row in the model and a token in its tokenizer; null where they are all ids
// up to the smaller of the two sizes.
std::shared_ptr<const std::vector<std::int64_t>> choosable_ids(const LoadedModel& model);

class OneText {
 public:
  // An empty prompt starts from the end mark. `choosable`: choosable_ids of the model. Errors: as
  // generate().
  OneText(const LoadedModel& model, std::vector<std::int64_t> prompt,
          const GenerateOptions& options, std::function<void(const std::string&)> on_text,
          std::shared_ptr<const std::vector<std::int64_t>> choosable);

  bool ended() const { return ended_; }
  // Prompt and text.
  const std::vector<std::int64_t>& ids() const { return all_ids_; }
  // Room that prompt and text may need.
  std::int64_t positions() const;
  // Ids that may be chosen are among the first so many.
  std::int64_t vocabulary() const;

  // Chooses the next token from these logits, of vocabulary() ids.
  void continue_with(const std::vector<float>& logits);
  GenerateResult finish();

 private:
  std::int64_t room() const;
  std::int64_t chosen(const std::vector<float>& logits) const;
  bool is_end_mark(std::int64_t id) const;
  void show(const std::string& piece);
  void look_for_the_end();
  void end(EndReason reason);

  const ModelConfig& config_;
  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  std::function<void(const std::string&)> on_text_;
  TextStream text_;
  std::vector<std::int64_t> all_ids_;
  std::int64_t prompt_length_;
  std::shared_ptr<const std::vector<std::int64_t>> choosable_;
  bool ended_ = false;
  GenerateResult result_;
};

}  // namespace kha
