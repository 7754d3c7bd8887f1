// A text cut into pieces by what matches in it: the step that all pre-tokenizers share.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kha {

// What becomes of the matches, by the names of tokenizer.json.
enum class SplitBehaviour { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Span {
  std::size_t begin;
  std::size_t end;
  bool match;
};

// All of the text in order, the gaps between matches included.
using Spans = std::vector<Span>;

// Puts the pieces of `spans` together by the behaviour. `match` of the result has no meaning;
// removed matches are gone.
void apply_behaviour(SplitBehaviour behaviour, Spans& spans);

}  // namespace kha
