// Which two neighbours become one, and which of all possible merges comes first.
#pragma once

#include <cstdint>
#include <vector>

namespace kha {

struct Merge {
  std::uint32_t rank;  // the lowest of all possible merges is done first
  std::uint32_t id;    // of what the two become

  static constexpr std::uint32_t no_rank = UINT32_MAX;
  bool exists() const { return rank != no_rank; }
};

// A hash table with open addressing, at most half full, made once and then only read.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges);
  // A pair that is there already takes the new merge.
  void set(std::uint32_t left, std::uint32_t right, Merge merge);

  Merge find(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = slot_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == free_key) return {Merge::no_rank, 0};
    }
  }

 private:
  static constexpr std::uint64_t free_key = UINT64_MAX;  // no two ids are both UINT32_MAX
  struct Slot {
    std::uint64_t key = free_key;
    Merge merge{Merge::no_rank, 0};
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  std::size_t slot_of(std::uint64_t key) const {
    return (key * 0x9E3779B97F4A7C15u) >>
           shift_;  // Fibonacci hashing: the upper bits are mixed best
  }

  int shift_;
  std::size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace kha
