#include "core/tokenizer/merge_table.h"

#include <bit>

namespace kha {

MergeTable::MergeTable(std::size_t merges) {
  const std::size_t slots = std::bit_ceil(merges * 2 + 2);
  shift_ = 64 - std::countr_zero(slots);
  mask_ = slots - 1;
  slots_.resize(slots);
}

void MergeTable::set(std::uint32_t left, std::uint32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = slot_of(key);
  while (slots_[at].key != key && slots_[at].key != free_key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

}  // namespace kha
