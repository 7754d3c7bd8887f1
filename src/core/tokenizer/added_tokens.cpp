#include "core/tokenizer/added_tokens.h"

#include <algorithm>

#include "core/tokenizer/unicode.h"

namespace kha {
namespace {

AddedToken read_token(const JsonField& field) {
  return {.content = field.at("content").text(),
          .id = static_cast<std::uint32_t>(field.at("id").number()),
          .special = field.at("special").flag(false),
          .single_word = field.at("single_word").flag(false),
          .lstrip = field.at("lstrip").flag(false),
          .rstrip = field.at("rstrip").flag(false),
          .normalized = field.at("normalized").flag(false)};
}

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    const std::string_view before = text.substr(0, begin);
    if (is_word(character_at(before, last_character(before)).value)) return true;
  }
  return end < text.size() && is_word(character_at(text, end).value);
}

std::size_t begin_of_blanks_before(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t last = last_character(text.substr(0, end));
    if (!is_space(character_at(text, last).value)) break;
    end = last;
  }
  return end;
}

std::size_t end_of_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(character_at(text, at).value)) {
    at += character_at(text, at).length;
  }
  return at;
}

}  // namespace

void TextTrie::add(std::string_view text, std::uint32_t value) {
  std::uint32_t at = 0;
  for (const char byte : text) {
    const auto& next = nodes_[at].next;
    const auto found = std::find_if(next.begin(), next.end(),
                                    [&](const auto& edge) { return edge.first == byte; });
    if (found != next.end()) {
      at = found->second;
      continue;
    }
    const auto added = static_cast<std::uint32_t>(nodes_.size());
    nodes_[at].next.emplace_back(byte, added);
    nodes_.emplace_back();
    at = added;
  }
  begins_[static_cast<unsigned char>(text[0])] = true;
  if (nodes_[at].value < 0) nodes_[at].value = value;
}

bool TextTrie::find(std::string_view text, std::size_t at, Match& match) const {
  if (empty()) return false;
  for (; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    std::uint32_t node = 0;
    bool found = false;
    for (std::size_t end = at; end < text.size(); ++end) {
      const auto& next = nodes_[node].next;
      const auto edge = std::find_if(next.begin(), next.end(),
                                     [&](const auto& one) { return one.first == text[end]; });
      if (edge == next.end()) break;
      node = edge->second;
      if (nodes_[node].value < 0) continue;
      found = true;
      match = {at, end + 1, static_cast<std::uint32_t>(nodes_[node].value)};
    }
    if (found) return true;
  }
  return false;
}

AddedTokens::AddedTokens(const JsonField& field, const BpeModel& model,
                         const TextNormaliser& normaliser) {
  if (field.is_null()) return;
  const auto vocabulary_size = static_cast<std::uint32_t>(model.vocabulary().size());
  std::uint32_t next_free = vocabulary_size;
  for (std::size_t i = 0; i < field.array().size(); ++i) {
    const AddedToken token = read_token(field.at(i));
    if (token.content.empty()) continue;
    const auto in_vocabulary = model.find(token.content);
    const std::uint32_t id = in_vocabulary.value_or(next_free);
    if (id != token.id) {
      field.at(i).refuse("the id of an added token is not the one that it gets when it is added",
                         "id " + std::to_string(id) + ", since the model has " +
                             std::to_string(vocabulary_size) + " tokens");
    }
    next_free = std::max(next_free, id + 1);
    tokens_.push_back(token);
    tokens_.back().spelled = token.content;
  }
  for (const bool special : {true, false}) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].special != special) continue;
      std::string storage;
      const std::string_view content = tokens_[i].content;
      const auto value = static_cast<std::uint32_t>(i);
      if (!tokens_[i].normalized) plain_.add(content, value);
      if (!tokens_[i].normalized) continue;
      if (const auto normal = normaliser.apply(content, storage); !normal.empty()) {
        normalised_.add(normal, value);
        tokens_[i].spelled = normal;
      }
    }
  }
}

void AddedTokens::split(std::string_view text, bool normalised, const Takes& takes,
                        const OnText& on_text, const OnToken& on_token) const {
  const TextTrie& trie = normalised ? normalised_ : plain_;
  std::size_t done = 0, at = 0;
  TextTrie::Match match{};
  while (trie.find(text, at, match)) {
    at = match.end;
    const AddedToken& token = tokens_[match.value];
    if (!takes(token)) continue;
    if (token.single_word && touches_word(text, match.begin, match.end)) continue;
    std::size_t begin = match.begin, end = match.end;
    if (token.lstrip) begin = std::max(begin_of_blanks_before(text, begin), done);
    if (token.rstrip) end = end_of_blanks(text, end);
    if (done < begin) on_text(text.substr(done, begin - done), done);
    on_token(token);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done), done);
}

}  // namespace kha
