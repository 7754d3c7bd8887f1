#include "kha/core/text_stream.h"

#include <algorithm>
#include <utility>

#include "core/text/unfinished_character.h"
#include "kha/core/error.h"

namespace kha {

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const auto& stop : stops_) {
    if (!stop.empty()) continue;
    fail({.what = "a stop text is empty",
          .expected = "at least one byte: an empty text would stop before the first token",
          .next = "leave --stop out, or give it a text"});
  }
}

// An earlier push has searched `already_searched` bytes, so a match ends behind them.
std::optional<TextStream::Match> TextStream::first_match(std::size_t already_searched) const {
  std::optional<Match> first;
  for (const auto& stop : stops_) {
    const std::size_t overlap = std::min(already_searched, stop.size() - 1);
    const std::size_t begin = held_.find(stop, already_searched - overlap);
    if (begin == std::string::npos) continue;
    const Match match{begin, begin + stop.size(), &stop};
    if (!first || match.end < first->end ||
        (match.end == first->end && match.begin < first->begin)) {
      first = match;
    }
  }
  return first;
}

// Bytes of held_ that no later byte can take back.
std::size_t TextStream::showable() const {
  const std::string_view held = held_;
  std::size_t kept = 0;
  for (const std::string_view stop : stops_) {
    const std::size_t longest = std::min(stop.size() - 1, held.size());
    for (std::size_t count = longest; count > kept; --count) {
      if (held.substr(held.size() - count) == stop.substr(0, count)) kept = count;
    }
  }
  const std::string_view shown = held.substr(0, held.size() - kept);
  return shown.size() - unfinished_character(shown);
}

std::string TextStream::push(std::string_view bytes) {
  if (finished_) return {};
  const std::size_t searched = held_.size();
  held_ += bytes;
  if (const auto match = first_match(searched)) {
    stop_ = *match->stop;
    held_.resize(match->begin);
    return finish();
  }
  const std::size_t count = showable();
  const std::string shown = held_.substr(0, count);
  held_.erase(0, count);
  return shown;
}

std::string TextStream::finish() {
  finished_ = true;
  return std::exchange(held_, {});
}

}  // namespace kha
