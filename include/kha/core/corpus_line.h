// The live line of a preparation: how far, how fast, how long still.
#pragma once

#include <chrono>
#include <optional>

#include "kha/core/corpus.h"
#include "kha/core/progress.h"

namespace kha {

// A CorpusProgress. Elsewhere than on a terminal it prints a line every half minute.
class CorpusLine {
 public:
  explicit CorpusLine(Progress& progress) : progress_(progress) {}

  void operator()(CorpusStage stage, std::uint64_t bytes_done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  Progress& progress_;
  std::optional<CorpusStage> stage_;
  Clock::time_point begin_, shown_, printed_;
  std::uint64_t bytes_before_ = 0;  // done when the stage was first seen
};

}  // namespace kha
