#include "kha/core/corpus_line.h"

#include <fmt/format.h>

#include <string>

namespace kha {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void CorpusLine::operator()(CorpusStage stage, std::uint64_t bytes_done, std::uint64_t total) {
  const auto now = Clock::now();
  if (stage_ != stage) {
    stage_ = stage;
    begin_ = shown_ = printed_ = now;
    bytes_before_ = bytes_done;
  }
  constexpr double between_frames = 0.2, between_lines = 30;
  if (seconds(now - shown_) < between_frames) return;
  shown_ = now;
  const double pace = static_cast<double>(bytes_done - bytes_before_) / seconds(now - begin_);
  std::string text = stage == CorpusStage::reading ? "reading text" : "writing token shards";
  text += total > 0 ? fmt::format(" {:.0f} %", 100.0 * static_cast<double>(bytes_done) /
                                                   static_cast<double>(total))
                    : " " + bytes_text(static_cast<double>(bytes_done));
  text += fmt::format("  {}/s", bytes_text(pace));
  if (total > 0 && pace > 0) {
    text += fmt::format("  {} left", duration_text(static_cast<double>(total - bytes_done) / pace));
  }
  progress_.passing(text);
  if (seconds(now - printed_) < between_lines || progress_.live()) return;
  printed_ = now;
  progress_.line(text);
}

}  // namespace kha
