#include "core/tokenizer/word_counts.h"

#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>

#include "core/machine/worker_threads.h"
#include "core/store/file_errors.h"
#include "core/tokenizer/unicode.h"
#include "core/tokenizer/unicode_normal_form.h"

namespace kha {
namespace {

constexpr std::size_t window_size = std::size_t{1} << 20;

// Documents as parts that can be split apart from each other, handed out one after another.
class TextParts {
 public:
  TextParts(const std::vector<TextDocument>& documents, const ReadProgress& progress)
      : documents_(documents), progress_(progress) {}

  // False when all has been handed out.
  bool next(std::string& part) {
    const std::lock_guard lock(mutex_);
    part.clear();
    while (part.empty()) {
      if (!stream_ && !open()) return false;
      read(part);
    }
    return true;
  }

 private:
  using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  bool open() {
    if (document_ == documents_.size()) return false;
    const auto& file = documents_[document_++].file;
    stream_ = Stream(std::fopen(file.c_str(), "rb"), &std::fclose);
    if (!stream_) fail_reading(file, errno);
    return true;
  }

  void read(std::string& part) {
    part.swap(rest_);
    rest_.clear();
    std::size_t cut = 0;
    while (stream_ && cut == 0) {
      const std::size_t had = part.size();
      part.resize(had + window_size);
      const std::size_t count = std::fread(part.data() + had, 1, window_size, stream_.get());
      part.resize(had + count);
      done_ += count;
      if (std::ferror(stream_.get())) fail_reading(documents_[document_ - 1].file, errno);
      if (count < window_size) stream_.reset();
      if (stream_) cut = last_sure_cut(part);
    }
    if (stream_) {
      rest_ = part.substr(cut);
      part.resize(cut);
    }
    if (progress_) progress_(done_);
  }

  const std::vector<TextDocument>& documents_;
  const ReadProgress& progress_;
  std::mutex mutex_;
  Stream stream_{nullptr, &std::fclose};
  std::size_t document_ = 0;
  std::string rest_;  // of the open document, behind the last cut
  std::uint64_t done_ = 0;
};

}  // namespace

void WordCounts::add(std::string_view word, std::uint64_t count) {
  add(word, XXH3_64bits(word.data(), word.size()), count);
}

void WordCounts::add(const WordCounts& other) {
  for (const Word& word : other.words_) add(other.text_of(word), word.hash, word.count);
}

void WordCounts::add(std::string_view word, std::uint64_t hash, std::uint64_t count) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at] != none; at = (at + 1) & mask) {
    Word& known = words_[slots_[at]];
    if (known.hash != hash || text_of(known) != word) continue;
    known.count += count;
    return;
  }
  slots_[at] = static_cast<std::uint32_t>(words_.size());
  words_.push_back({hash, text_.size(), static_cast<std::uint32_t>(word.size()), count});
  text_ += word;
  if (words_.size() * 2 > slots_.size()) grow();
}

void WordCounts::grow() {
  slots_.assign(slots_.size() * 2, none);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::size_t at = words_[i].hash & mask;
    while (slots_[at] != none) at = (at + 1) & mask;
    slots_[at] = static_cast<std::uint32_t>(i);
  }
}

std::size_t last_sure_cut(std::string_view text) {
  const CharacterClasses& classes = CharacterClasses::get();
  // The last bytes can be half a character.
  std::size_t end = text.size() < 4 ? 0 : text.size() - 4;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  while (end > 0) {
    const std::size_t last = last_character(text.substr(0, end));
    const bool letter = classes.of(character_at(text, last).value) & class_letter;
    const auto next = classes.of(character_at(text, end).value);
    if (letter && !(next & (class_letter | class_mark))) return end;
    end = last;
  }
  return 0;
}

WordCounts count_words(const std::vector<TextDocument>& documents, SplitPattern pattern, bool nfc,
                       int threads, const ReadProgress& progress) {
  TextParts parts(documents, progress);
  std::mutex mutex;
  WordCounts all;
  on_threads(threads, [&] {
    const WordScanner scanner(pattern);
    WordCounts counts;
    for (std::string part; parts.next(part);) {
      if (nfc && !is_surely_nfc(part)) part = normalise(part, NormalForm::nfc);
      for (std::size_t at = 0; at < part.size();) {
        const std::size_t end = scanner.end_of_piece(part, at);
        counts.add(std::string_view(part).substr(at, end - at));
        at = end;
      }
    }
    const std::lock_guard lock(mutex);
    all.words().empty() ? all = std::move(counts) : (all.add(counts), all);
  });
  return all;
}

}  // namespace kha
