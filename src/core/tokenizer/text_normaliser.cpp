#include "core/tokenizer/text_normaliser.h"

#include <map>

#include "core/tokenizer/text_pattern.h"
#include "core/tokenizer/unicode.h"
#include "core/tokenizer/unicode_normal_form.h"

namespace kha {
namespace {

const std::map<std::string, NormalForm>& forms() {
  static const std::map<std::string, NormalForm> all = {{"NFC", NormalForm::nfc},
                                                        {"NFD", NormalForm::nfd},
                                                        {"NFKC", NormalForm::nfkc},
                                                        {"NFKD", NormalForm::nfkd}};
  return all;
}

std::string replaced(std::string_view text, const FindMatches& find, const std::string& content) {
  Spans spans;
  find(text, spans);
  std::string out;
  for (const Span& span : spans) {
    out += span.match ? content : text.substr(span.begin, span.end - span.begin);
  }
  return out;
}

std::string stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_space(character_at(text, 0).value)) {
    text.remove_prefix(character_at(text, 0).length);
  }
  while (right && !text.empty() && is_space(character_at(text, last_character(text)).value)) {
    text = text.substr(0, last_character(text));
  }
  return std::string(text);
}

}  // namespace

TextNormaliser::TextNormaliser(const JsonField& field) {
  if (!field.is_null()) add(field);
  only_nfc_ = steps_.size() == 1 && only_nfc_;
}

void TextNormaliser::add(const JsonField& field) {
  const std::string type = field.type();
  if (type == "Sequence") {
    const JsonField list = field.at("normalizers");
    for (std::size_t i = 0; i < list.array().size(); ++i) add(list.at(i));
  } else if (const auto form = forms().find(type); form != forms().end()) {
    only_nfc_ = form->second == NormalForm::nfc;
    steps_.push_back(
        [form = form->second](std::string_view text) { return normalise(text, form); });
  } else if (type == "Prepend") {
    const std::string prefix = field.at("prepend").text();
    steps_.push_back([prefix](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    });
  } else if (type == "Replace") {
    const FindMatches find = matches_of(field.at("pattern"));
    const std::string content = field.at("content").text();
    steps_.push_back(
        [find, content](std::string_view text) { return replaced(text, find, content); });
  } else if (type == "Strip") {
    const bool left = field.at("strip_left").flag(true);
    const bool right = field.at("strip_right").flag(true);
    steps_.push_back([left, right](std::string_view text) { return stripped(text, left, right); });
  } else {
    field.refuse("this normalizer is not read here",
                 "NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, or a Sequence of these");
  }
}

std::string_view TextNormaliser::apply(std::string_view text, std::string& storage) const {
  if (steps_.empty() || (only_nfc_ && is_surely_nfc(text))) return text;
  for (const Step& step : steps_) {
    std::string next = step(text);
    storage = std::move(next);
    text = storage;
  }
  return text;
}

}  // namespace kha
