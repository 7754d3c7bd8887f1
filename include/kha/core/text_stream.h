// Generated text as it may be shown: never half a character, never the beginning of a stop text.
//
// Bytes come in pieces of any size (a token may be a part of a character, or hold a stop text in
// its middle). What is given out, in order, is all bytes before the first stop text, byte for byte;
// bytes that are no UTF-8 pass through as they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kha {

class TextStream {
 public:
  // The stop text that is complete first ends the stream; of those that are complete with the same
  // byte, the longest. Errors: an empty stop text.
  explicit TextStream(std::vector<std::string> stops = {});

  // Takes more bytes and gives what may be shown now. Held back: an unfinished UTF-8 character, and
  // a tail that a stop text could begin with. After a stop text nothing is taken or given.
  std::string push(std::string_view bytes);
  // What was held back. The stream takes nothing afterwards.
  std::string finish();

  bool stopped() const { return stop_.has_value(); }
  // The stop text that ended the stream.
  const std::optional<std::string>& stop() const { return stop_; }

 private:
  struct Match {
    std::size_t begin, end;  // in held_
    const std::string* stop;
  };
  std::optional<Match> first_match(std::size_t already_searched) const;
  std::size_t showable() const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> stop_;
  bool finished_ = false;
};

}  // namespace kha
