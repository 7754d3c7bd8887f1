#include "core/tokenizer/word_cache.h"

#include <xxhash.h>

namespace kha {

std::uint64_t WordCache::hash_of(std::string_view piece) {
  return XXH3_64bits(piece.data(), piece.size());
}

const std::uint32_t* WordCache::find(std::string_view piece, std::uint64_t hash,
                                     std::uint32_t& count) const {
  const Slot& slot = slots_[hash % slot_count];
  if (slot.hash != hash || slot.text_size != piece.size()) return nullptr;
  if (std::string_view(text_).substr(slot.text_at, slot.text_size) != piece) return nullptr;
  count = slot.ids_count;
  return ids_.data() + slot.ids_at;
}

void WordCache::put(std::string_view piece, std::uint64_t hash,
                    std::span<const std::uint32_t> ids) {
  if (piece.empty() || piece.size() > longest) return;
  if (text_.size() + piece.size() > most_held || (ids_.size() + ids.size()) * 4 > most_held) {
    slots_.assign(slot_count, {});
    text_.clear();
    ids_.clear();
  }
  slots_[hash % slot_count] = {.hash = hash,
                               .text_at = static_cast<std::uint32_t>(text_.size()),
                               .ids_at = static_cast<std::uint32_t>(ids_.size()),
                               .text_size = static_cast<std::uint16_t>(piece.size()),
                               .ids_count = static_cast<std::uint16_t>(ids.size())};
  text_ += piece;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

}  // namespace kha
