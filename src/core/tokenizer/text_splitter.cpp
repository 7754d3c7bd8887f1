#include "core/tokenizer/text_splitter.h"

#include <algorithm>

namespace kha {
namespace {

// A match goes to the piece before it; of several in a row only the first does.
void merge_with_previous(Spans& spans) {
  Spans merged;
  bool after_match = false;
  for (const Span& span : spans) {
    if (span.match && !after_match && !merged.empty()) {
      merged.back().end = span.end;
    } else {
      merged.push_back(span);
    }
    after_match = span.match;
  }
  spans = std::move(merged);
}

void merge_with_next(Spans& spans) {
  Spans merged;
  bool after_match = false;
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    if (span->match && !after_match && !merged.empty()) {
      merged.back().begin = span->begin;
    } else {
      merged.push_back(*span);
    }
    after_match = span->match;
  }
  std::reverse(merged.begin(), merged.end());
  spans = std::move(merged);
}

void merge_alike(Spans& spans) {
  Spans merged;
  for (const Span& span : spans) {
    if (!merged.empty() && merged.back().match == span.match) {
      merged.back().end = span.end;
    } else {
      merged.push_back(span);
    }
  }
  spans = std::move(merged);
}

}  // namespace

void apply_behaviour(SplitBehaviour behaviour, Spans& spans) {
  switch (behaviour) {
    case SplitBehaviour::removed:
      std::erase_if(spans, [](const Span& span) { return span.match; });
      return;
    case SplitBehaviour::isolated:
      return;
    case SplitBehaviour::merged_with_previous:
      return merge_with_previous(spans);
    case SplitBehaviour::merged_with_next:
      return merge_with_next(spans);
    case SplitBehaviour::contiguous:
      return merge_alike(spans);
  }
}

}  // namespace kha
