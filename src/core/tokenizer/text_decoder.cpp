#include "core/tokenizer/text_decoder.h"

#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/unicode.h"

namespace kha {
namespace {

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  for (std::size_t at; (at = text.find(pattern)) != std::string_view::npos;) {
    out += text.substr(0, at);
    out += content;
    text.remove_prefix(at + pattern.size());
  }
  return out += text;
}

std::string byte_or_text(std::string_view token) {
  if (const auto byte = byte_of_piece(token)) return {static_cast<char>(*byte)};
  return std::string(token);
}

// A token with another character than byte letters, such as an added one, is text as it stands.
std::string bytes_or_text(std::string_view token) {
  return bytes_of_letters(token).value_or(std::string(token));
}

}  // namespace

TextDecoder::TextDecoder(const JsonField& field) {
  separates_tokens_ = field.is_null();
  if (!field.is_null()) add(field);
}

void TextDecoder::add(const JsonField& field) {
  const std::string type = field.type();
  if (fused_ && type != "Strip") {
    field.refuse("only Strip is read behind Fuse", "this decoder before Fuse");
  }
  if (type == "Sequence") {
    const JsonField list = field.at("decoders");
    for (std::size_t i = 0; i < list.array().size(); ++i) add(list.at(i));
  } else if (type == "ByteLevel") {
    steps_.push_back(bytes_or_text);
  } else if (type == "ByteFallback") {
    steps_.push_back(byte_or_text);
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Replace") {
    const std::string pattern = field.at("pattern").object().at("String").text();
    if (pattern.empty()) field.refuse("the pattern is empty", "a text to look for");
    const std::string content = field.at("content").text();
    steps_.push_back(
        [pattern, content](std::string_view token) { return replaced(token, pattern, content); });
  } else if (type == "Metaspace") {
    const std::string mark = field.at("replacement").text();
    const bool legacy = field.at("add_prefix_space").flag(true);
    const bool never = field.at("prepend_scheme").text(legacy ? "always" : "never") == "never";
    if (!never) first_mark_ = mark;
    steps_.push_back([mark](std::string_view token) { return replaced(token, mark, " "); });
  } else if (type == "Strip") {
    add_strip(field);
  } else {
    field.refuse(
        "this decoder is not read here",
        "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, or a Sequence of these");
  }
}

void TextDecoder::add_strip(const JsonField& field) {
  if (!fused_) field.refuse("Strip is read only behind Fuse", "Fuse before Strip");
  strips_.push_back(
      {field.at("content").text(), field.at("start").number(), field.at("stop").number()});
}

std::string TextDecoder::spelled(std::string_view token) const {
  std::string text(token);
  for (const TokenStep& step : steps_) text = step(text);
  return text;
}

std::string TextDecoder::spelled_first(std::string_view token) const {
  return first_mark_.empty() ? spelled(token) : spelled(replaced(token, first_mark_, ""));
}

void TextDecoder::trim(std::string& text) const {
  for (const Strip& strip : strips_) {
    for (std::int64_t i = 0; i < strip.start && text.starts_with(strip.content); ++i) {
      text.erase(0, strip.content.size());
    }
    for (std::int64_t i = 0; i < strip.stop && text.ends_with(strip.content); ++i) {
      text.erase(text.size() - strip.content.size());
    }
  }
}

}  // namespace kha
