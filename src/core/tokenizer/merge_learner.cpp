#include "core/tokenizer/merge_learner.h"

#include <algorithm>
#include <unordered_map>

#include "core/tokenizer/bpe_model.h"
#include "core/tokenizer/byte_alphabet.h"

namespace kha {
namespace {

using Pair = std::pair<std::uint32_t, std::uint32_t>;

std::uint64_t key_of(Pair pair) { return std::uint64_t{pair.first} << 32 | pair.second; }

struct PairHash {
  std::size_t operator()(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return key ^ key >> 32;
  }
};

// A pair, how often it was met when it came here, and the words that it stood in since it last did.
struct Candidate {
  std::int64_t count;
  Pair pair;
  std::vector<std::uint32_t> words;

  // The most frequent one comes first, then the one of the lower ids.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  Learner(const WordCounts& words, const std::vector<std::string>& special) {
    for (const std::string& text : special) add_token(text);
    add_bytes();
    spell(words);
    count_pairs();
  }

  LearntMerges run(std::size_t vocab_size, std::uint64_t min_frequency,
                   const std::function<void(std::size_t)>& progress) {
    while (learnt_.tokens.size() < vocab_size && !queue_.empty()) {
      Candidate best = take_best();
      const std::int64_t now = pairs_[key_of(best.pair)].count;
      if (best.count != now) {
        best.count = now;
        put(std::move(best));
        continue;
      }
      if (now < 1 || static_cast<std::uint64_t>(now) < min_frequency) break;
      merge(best);
      if (progress) progress(learnt_.tokens.size());
    }
    return std::move(learnt_);
  }

 private:
  struct Word {
    std::uint64_t begin;
    std::uint32_t size;
    std::int64_t count;
  };
  struct PairState {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // not yet in the queue
  };

  std::uint32_t add_token(const std::string& text) {
    const auto [entry, is_new] =
        ids_.emplace(text, static_cast<std::uint32_t>(learnt_.tokens.size()));
    if (is_new) learnt_.tokens.push_back(text);
    return entry->second;
  }

  // In the order of their letters, which is how the package orders an alphabet.
  void add_bytes() {
    std::vector<int> order(256);
    for (int byte = 0; byte < 256; ++byte) order[byte] = byte;
    std::sort(order.begin(), order.end(),
              [](int left, int right) { return byte_letters()[left] < byte_letters()[right]; });
    for (const int byte : order) byte_ids_[byte] = add_token({static_cast<char>(byte)});
  }

  void spell(const WordCounts& words) {
    for (const auto& word : words.words()) {
      const std::string_view text = words.text_of(word);
      words_.push_back({symbols_.size(), static_cast<std::uint32_t>(text.size()),
                        static_cast<std::int64_t>(word.count)});
      for (const char byte : text) symbols_.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
  }

  void count_pairs() {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const std::uint32_t* const symbols = symbols_.data() + words_[w].begin;
      for (std::uint32_t i = 0; i + 1 < words_[w].size; ++i) {
        note({symbols[i], symbols[i + 1]}, words_[w].count, w);
      }
    }
    queue_changed();
  }

  // The pair is met more or less often in the word.
  void note(Pair pair, std::int64_t change, std::uint32_t word) {
    const std::uint64_t key = key_of(pair);
    PairState& state = pairs_[key];
    state.count += change;
    if (change < 0) return;
    if (state.words.empty()) changed_.push_back(pair);
    if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
  }

  void put(Candidate candidate) {
    queue_.push_back(std::move(candidate));
    std::push_heap(queue_.begin(), queue_.end());
  }

  Candidate take_best() {
    std::pop_heap(queue_.begin(), queue_.end());
    Candidate best = std::move(queue_.back());
    queue_.pop_back();
    return best;
  }

  void queue_changed() {
    for (const Pair& pair : changed_) {
      PairState& state = pairs_[key_of(pair)];
      if (state.count > 0) put({state.count, pair, std::move(state.words)});
      state.words = {};
    }
    changed_.clear();
  }

  void merge(const Candidate& best) {
    const auto [left, right] = best.pair;
    const std::uint32_t id = add_token(learnt_.tokens[left] + learnt_.tokens[right]);
    learnt_.merges.push_back(best.pair);
    for (const std::uint32_t word : best.words) merge_in_word(word, best.pair, id);
    queue_changed();
  }

  // The count of the merged pair itself stays, as it does in the package.
  void merge_in_word(std::uint32_t w, Pair pair, std::uint32_t id) {
    Word& word = words_[w];
    std::uint32_t* const symbols = symbols_.data() + word.begin;
    std::uint32_t out = 0;
    for (std::uint32_t in = 0; in < word.size; ++in) {
      const bool here =
          symbols[in] == pair.first && in + 1 < word.size && symbols[in + 1] == pair.second;
      if (!here) {
        symbols[out++] = symbols[in];
        continue;
      }
      if (out > 0) {
        note({symbols[out - 1], pair.first}, -word.count, w);
        note({symbols[out - 1], id}, word.count, w);
      }
      ++in;
      if (in + 1 < word.size) {
        note({pair.second, symbols[in + 1]}, -word.count, w);
        note({id, symbols[in + 1]}, word.count, w);
      }
      symbols[out++] = id;
    }
    word.size = out;
  }

  LearntMerges learnt_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::uint32_t byte_ids_[256];
  std::vector<Word> words_;
  std::vector<std::uint32_t> symbols_;  // of all words, one behind the other
  std::unordered_map<std::uint64_t, PairState, PairHash> pairs_;
  std::vector<Pair> changed_;     // those with words that are not in the queue
  std::vector<Candidate> queue_;  // a heap
};

// A pair can be learnt twice, where its token was there already; the later rank is the one that
// counts.
void drop_earlier_repeats(std::vector<Pair>& merges) {
  std::unordered_map<std::uint64_t, std::size_t, PairHash> last;
  for (std::size_t i = 0; i < merges.size(); ++i) last[key_of(merges[i])] = i;
  std::size_t i = 0;
  std::erase_if(merges, [&](const Pair& pair) { return last[key_of(pair)] != i++; });
}

}  // namespace

LearntMerges learn_merges(const WordCounts& words, const std::vector<std::string>& special,
                          std::size_t vocab_size, std::uint64_t min_frequency,
                          const std::function<void(std::size_t tokens)>& progress) {
  LearntMerges learnt = Learner(words, special).run(vocab_size, min_frequency, progress);
  drop_earlier_repeats(learnt.merges);
  return learnt;
}

}  // namespace kha
