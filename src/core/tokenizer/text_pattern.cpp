#include "core/tokenizer/text_pattern.h"

#include <memory>

#include "core/tokenizer/split_regex.h"

namespace kha {

FindMatches matches_of_text(std::string pattern) {
  return [pattern = std::move(pattern)](std::string_view text, Spans& spans) {
    std::size_t copied = 0;
    for (std::size_t at; (at = text.find(pattern, copied)) != std::string_view::npos;) {
      if (copied < at) spans.push_back({copied, at, false});
      copied = at + pattern.size();
      spans.push_back({at, copied, true});
    }
    if (copied < text.size()) spans.push_back({copied, text.size(), false});
  };
}

FindMatches matches_of(const JsonField& pattern) {
  if (!pattern.object().at("String").is_null()) {
    const std::string text = pattern.at("String").text();
    if (text.empty()) pattern.refuse("the pattern is empty", "a text to look for");
    return matches_of_text(text);
  }
  const JsonField expression = pattern.at("Regex");
  const auto regex = std::make_shared<const SplitRegex>(expression.text(), expression.where());
  return [regex](std::string_view text, Spans& spans) { regex->find(text, spans); };
}

}  // namespace kha
