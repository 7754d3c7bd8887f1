#include "model/generate/generate.h"

#include "model/generate/next_logits.h"
#include "model/generate/one_text.h"

namespace kha {

std::string to_string(EndReason reason) {
  switch (reason) {
    case EndReason::end_mark:
      return "end_mark";
    case EndReason::stop_text:
      return "stop_text";
    case EndReason::length:
      return "length";
    case EndReason::context_full:
      return "context_full";
  }
  return "";
}

std::string in_words(EndReason reason) {
  switch (reason) {
    case EndReason::end_mark:
      return "the model ended the text";
    case EndReason::stop_text:
      return "a stop text came";
    case EndReason::length:
      return "the wanted number of tokens is written";
    case EndReason::context_full:
      return "the context is full";
  }
  return "";
}

GenerateResult generate(const LoadedModel& model, std::vector<std::int64_t> prompt,
                        const GenerateOptions& options,
                        const std::function<void(const std::string&)>& on_text) {
  OneText text(model, std::move(prompt), options, on_text, choosable_ids(model));
  NextLogits logits(model, options, text.positions());
  while (!text.ended()) text.continue_with(logits.after(text.ids(), text.vocabulary()));
  GenerateResult result = text.finish();
  result.cache = logits.cache_use();
  return result;
}

}  // namespace kha
