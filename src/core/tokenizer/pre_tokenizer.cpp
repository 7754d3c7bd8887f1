#include "core/tokenizer/pre_tokenizer.h"

#include <map>

#include "core/tokenizer/unicode.h"

namespace kha {
namespace {

using CharacterTest = bool (*)(char32_t);

const char* const known_types =
    "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
    "CharDelimiterSplit, or a Sequence of these";

SplitBehaviour behaviour_of(const JsonField& field) {
  static const std::map<std::string, SplitBehaviour> names = {
      {"Removed", SplitBehaviour::removed},
      {"Isolated", SplitBehaviour::isolated},
      {"MergedWithPrevious", SplitBehaviour::merged_with_previous},
      {"MergedWithNext", SplitBehaviour::merged_with_next},
      {"Contiguous", SplitBehaviour::contiguous}};
  const auto found = names.find(field.text());
  if (found == names.end()) {
    field.refuse("there is no such behaviour",
                 "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  }
  return found->second;
}

FindMatches each_character(CharacterTest test) {
  return [test](std::string_view text, Spans& spans) {
    std::size_t gap = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Character character = character_at(text, at);
      const std::size_t end = at + character.length;
      if (test(character.value)) {
        if (gap < at) spans.push_back({gap, at, false});
        spans.push_back({at, end, true});
        gap = end;
      }
      at = end;
    }
    if (gap < text.size()) spans.push_back({gap, text.size(), false});
  };
}

// \w+|[^\w\s]+ with everything else removed: words, runs of what is neither word nor blank.
void words_and_symbols(std::string_view text, Spans& spans) {
  int previous = -1;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const int kind = is_space(character.value) ? 0 : is_word(character.value) ? 1 : 2;
    const std::size_t end = at + character.length;
    if (kind == previous) {
      spans.back().end = end;
    } else {
      spans.push_back({at, end, kind == 0});
    }
    previous = kind;
    at = end;
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonField& field) {
  if (!field.is_null()) add(field);
  // One scanner needs no list of pieces; a second step does.
  if (steps_.size() != 1) scanner_.reset();
}

void PreTokenizer::add(const JsonField& field) {
  const std::string type = field.type();
  if (byte_level_) {
    field.refuse("a step behind ByteLevel would see its visible bytes, which are not made here",
                 "ByteLevel as the last step");
  }
  if (type == "Sequence") {
    const JsonField list = field.at("pretokenizers");
    for (std::size_t i = 0; i < list.array().size(); ++i) add(list.at(i));
  } else if (type == "ByteLevel") {
    add_byte_level(field);
  } else if (type == "Split") {
    add_split(field);
  } else if (type == "Metaspace") {
    add_metaspace(field);
  } else if (type == "Digits") {
    const bool single = field.at("individual_digits").flag(false);
    add_cut(single ? SplitBehaviour::isolated : SplitBehaviour::contiguous,
            each_character(is_numeric));
  } else if (type == "Punctuation") {
    const JsonField behaviour = field.at("behavior");
    add_cut(behaviour.is_null() ? SplitBehaviour::isolated : behaviour_of(behaviour),
            each_character(is_punctuation));
  } else if (type == "Whitespace") {
    add_cut(SplitBehaviour::removed, words_and_symbols);
  } else if (type == "WhitespaceSplit") {
    add_cut(SplitBehaviour::removed, each_character(is_space));
  } else if (type == "CharDelimiterSplit") {
    add_cut(SplitBehaviour::removed, matches_of_text(field.at("delimiter").text()));
  } else {
    field.refuse("this pre_tokenizer is not read here", known_types);
  }
}

void PreTokenizer::add_cut(SplitBehaviour behaviour, FindMatches find) {
  steps_.push_back([behaviour, find = std::move(find)](PieceList& list) {
    std::vector<PieceList::Piece> cut;
    Spans spans;
    for (const auto& piece : list.pieces) {
      spans.clear();
      find(piece.text, spans);
      apply_behaviour(behaviour, spans);
      for (const Span& span : spans) {
        if (span.begin == span.end) continue;
        cut.push_back({piece.text.substr(span.begin, span.end - span.begin),
                       piece.at_start && span.begin == 0});
      }
    }
    list.pieces = std::move(cut);
  });
}

void PreTokenizer::add_scanner(SplitPattern pattern) {
  scanner_.emplace(pattern);
  add_cut(SplitBehaviour::isolated, [scanner = *scanner_](std::string_view text, Spans& spans) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = scanner.end_of_piece(text, at);
      spans.push_back({at, end, true});
      at = end;
    }
  });
}

void PreTokenizer::add_split(const JsonField& field) {
  const JsonField pattern = field.at("pattern");
  const bool invert = field.at("invert").flag(false);
  const SplitBehaviour behaviour = behaviour_of(field.at("behavior"));
  // The known patterns match all of a text, so that isolated matches and removed gaps are the same.
  const bool keeps_matches =
      invert ? behaviour == SplitBehaviour::removed : behaviour == SplitBehaviour::isolated;
  if (keeps_matches && !pattern.at("Regex").is_null()) {
    if (const auto known = known_pattern(pattern.at("Regex").text())) return add_scanner(*known);
  }
  FindMatches find = matches_of(pattern);
  if (!invert) return add_cut(behaviour, std::move(find));
  add_cut(behaviour, [find = std::move(find)](std::string_view text, Spans& spans) {
    find(text, spans);
    for (Span& span : spans) span.match = !span.match;
  });
}

void PreTokenizer::add_byte_level(const JsonField& field) {
  byte_level_ = true;
  if (field.at("add_prefix_space").flag(true)) {
    steps_.push_back([](PieceList& list) {
      for (auto& piece : list.pieces) {
        if (piece.text.starts_with(' ')) continue;
        piece.text = list.owned.emplace_back(" " + std::string(piece.text));
      }
    });
  }
  if (field.at("use_regex").flag(true)) add_scanner(SplitPattern::gpt2);
}

void PreTokenizer::add_metaspace(const JsonField& field) {
  const std::string mark = field.at("replacement").text();
  const bool legacy_prefix = field.at("add_prefix_space").flag(true);
  const std::string scheme = field.at("prepend_scheme").text(legacy_prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    field.at("prepend_scheme").refuse("there is no such scheme", "always, first or never");
  }
  steps_.push_back([mark, scheme](PieceList& list) {
    for (auto& piece : list.pieces) {
      std::string text;
      for (const char byte : piece.text) byte == ' ' ? text += mark : text += byte;
      const bool wanted = scheme == "always" || (scheme == "first" && piece.at_start);
      if (wanted && !text.starts_with(mark)) text = mark + text;
      piece.text = list.owned.emplace_back(std::move(text));
    }
  });
  if (field.at("split").flag(true)) {
    add_cut(SplitBehaviour::merged_with_next, matches_of_text(mark));
  }
}

void PreTokenizer::split(PieceList& list) const {
  for (const Step& step : steps_) step(list);
}

}  // namespace kha
