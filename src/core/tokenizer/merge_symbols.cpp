#include "core/tokenizer/merge_symbols.h"

#include <algorithm>

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

// A list of symbols and a heap of merges, some of which no longer stand when they come up.
class LongMerge {
 public:
  LongMerge(const MergeTable& table, std::vector<std::uint32_t>& symbols, MergeScratch& scratch)
      : table_(table), symbols_(symbols), nodes_(scratch.nodes), heap_(scratch.heap) {}

  void run() {
    link();
    std::make_heap(heap_.begin(), heap_.end(), later);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Candidate candidate = heap_.back();
      heap_.pop_back();
      const Merge& now = nodes_[candidate.at].merge;
      if (now.rank == candidate.rank && now.id == candidate.id) merge(candidate.at);
    }
    symbols_.clear();
    for (std::uint32_t at = 0; at != none; at = nodes_[at].next) symbols_.push_back(nodes_[at].id);
  }

 private:
  using Candidate = MergeScratch::Candidate;
  static constexpr std::uint32_t none = UINT32_MAX;

  static bool later(const Candidate& left, const Candidate& right) {
    return left.rank != right.rank ? left.rank > right.rank : left.at > right.at;
  }

  void link() {
    const auto count = static_cast<std::uint32_t>(symbols_.size());
    nodes_.resize(count);
    heap_.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      Merge next{Merge::no_rank, 0};
      if (i + 1 < count) next = table_.find(symbols_[i], symbols_[i + 1]);
      nodes_[i] = {symbols_[i], i == 0 ? none : i - 1, i + 1 < count ? i + 1 : none, next};
      if (next.exists()) heap_.push_back({next.rank, i, next.id});
    }
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
    if (!nodes_[at].merge.exists()) return;
    heap_.push_back({nodes_[at].merge.rank, at, nodes_[at].merge.id});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  const MergeTable& table_;
  std::vector<std::uint32_t>& symbols_;
  std::vector<MergeScratch::Node>& nodes_;
  std::vector<Candidate>& heap_;
};

}  // namespace

void merge_symbols(const MergeTable& table, std::vector<std::uint32_t>& symbols,
                   MergeScratch& scratch) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= short_length) return merge_short(table, symbols, scratch.merges);
  LongMerge(table, symbols, scratch).run();
}

}  // namespace kha
