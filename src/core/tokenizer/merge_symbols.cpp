#include "core/tokenizer/merge_symbols.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

namespace kha {
namespace {

// Up to here, looking through all merges each time is faster than keeping them in order.
constexpr std::size_t short_length = 48;

void merge_short(const MergeTable& table, std::vector<std::uint32_t>& symbols,
                 std::vector<Merge>& merges) {
  std::size_t count = symbols.size();
  merges.resize(count);
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = table.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (!merges[best].exists()) break;
    symbols[best] = merges[best].id;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    if (best + 2 < count) {
      std::copy(merges.begin() + best + 2, merges.begin() + count, merges.begin() + best + 1);
    }
    --count;
    if (best + 1 < count) merges[best] = table.find(symbols[best], symbols[best + 1]);
    if (best > 0) merges[best - 1] = table.find(symbols[best - 1], symbols[best]);
  }
  symbols.resize(count);
}

// Places that wait for one merge, taken from left to right. Those that come after the first was
// taken are few, and kept as a heap.
class Places {
 public:
  void put(std::uint32_t at) {
    late_.push_back(at);
    if (begun_) std::push_heap(late_.begin(), late_.end(), std::greater<>());
  }

  bool take(std::uint32_t& at) {
    if (!begun_) begin();
    const bool in_order = next_ < sorted_.size();
    if (!in_order && late_.empty()) return false;
    if (in_order && (late_.empty() || sorted_[next_] <= late_.front())) {
      at = sorted_[next_++];
      return true;
    }
    std::pop_heap(late_.begin(), late_.end(), std::greater<>());
    at = late_.back();
    late_.pop_back();
    return true;
  }

 private:
  void begin() {
    if (!std::is_sorted(late_.begin(), late_.end())) std::sort(late_.begin(), late_.end());
    sorted_.swap(late_);
    begun_ = true;
  }

  std::vector<std::uint32_t> sorted_;
  std::size_t next_ = 0;
  std::vector<std::uint32_t> late_;
  bool begun_ = false;
};

// A list of symbols, and for each rank the places that wait for it. All places of one rank are
// merged in one pass from left to right, which walks through memory in order; a pass that makes a
// merge of a lower rank stops for it and goes on later.
class LongMerge {
 public:
  LongMerge(const MergeTable& table, std::vector<std::uint32_t>& symbols, MergeScratch& scratch)
      : table_(table), symbols_(symbols), nodes_(scratch.nodes) {}

  void run() {
    link();
    while (!ranks_.empty()) {
      const std::uint32_t rank = ranks_.top();
      ranks_.pop();
      merge_all(rank);
    }
    symbols_.clear();
    for (std::uint32_t at = 0; at != none; at = nodes_[at].next) symbols_.push_back(nodes_[at].id);
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  void link() {
    const auto count = static_cast<std::uint32_t>(symbols_.size());
    nodes_.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      nodes_[i] = {symbols_[i], i == 0 ? none : i - 1, i + 1 < count ? i + 1 : none, {}};
    }
    for (std::uint32_t i = 0; i < count; ++i) look_for_merge(i);
  }

  void merge_all(std::uint32_t rank) {
    Places& places = waiting_[rank];  // stays where it is when others are added
    for (std::uint32_t at; places.take(at);) {
      if (nodes_[at].merge.rank != rank) continue;  // it no longer stands
      merge(at);
      if (ranks_.empty() || ranks_.top() > rank) continue;
      ranks_.push(rank);
      return;
    }
    waiting_.erase(rank);
  }

  void merge(std::uint32_t at) {
    const std::uint32_t right = nodes_[at].next;
    nodes_[at].id = nodes_[at].merge.id;
    nodes_[at].next = nodes_[right].next;
    nodes_[right].merge = {Merge::no_rank, 0};
    if (nodes_[at].next != none) nodes_[nodes_[at].next].previous = at;
    look_for_merge(at);
    if (nodes_[at].previous != none) look_for_merge(nodes_[at].previous);
  }

  void look_for_merge(std::uint32_t at) {
    const std::uint32_t next = nodes_[at].next;
    nodes_[at].merge = {Merge::no_rank, 0};
    if (next == none) return;
    nodes_[at].merge = table_.find(nodes_[at].id, nodes_[next].id);
    if (nodes_[at].merge.exists()) wait(at, nodes_[at].merge.rank);
  }

  void wait(std::uint32_t at, std::uint32_t rank) {
    const auto [places, is_new] = waiting_.try_emplace(rank);
    if (is_new) ranks_.push(rank);
    places->second.put(at);
  }

  using LowestFirst =
      std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>;

  const MergeTable& table_;
  std::vector<std::uint32_t>& symbols_;
  std::vector<MergeScratch::Node>& nodes_;
  std::unordered_map<std::uint32_t, Places> waiting_;
  LowestFirst ranks_;  // those that places wait for
};

}  // namespace

void merge_symbols(const MergeTable& table, std::vector<std::uint32_t>& symbols,
                   MergeScratch& scratch) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= short_length) return merge_short(table, symbols, scratch.merges);
  LongMerge(table, symbols, scratch).run();
}

}  // namespace kha
