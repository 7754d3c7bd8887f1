// Pieces that were encoded before, with their ids: most of a text is words that have been seen.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kha {

// One thread's. A slot keeps the last piece that fell into it; memory is bounded, and emptied where
// the bound is reached.
class WordCache {
 public:
  static constexpr std::size_t longest = 64;  // bytes of a piece; longer ones come but once

  static std::uint64_t hash_of(std::string_view piece);

  // Null where the piece is not known.
  const std::uint32_t* find(std::string_view piece, std::uint64_t hash, std::uint32_t& count) const;
  void put(std::string_view piece, std::uint64_t hash, std::span<const std::uint32_t> ids);

 private:
  static constexpr std::size_t slot_count = std::size_t{1} << 16;
  static constexpr std::size_t most_held = std::size_t{4} << 20;  // bytes of text, and of ids

  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t text_at = 0;
    std::uint32_t ids_at = 0;
    std::uint16_t text_size = 0;  // 0 is a free slot
    std::uint16_t ids_count = 0;
  };

  std::vector<Slot> slots_ = std::vector<Slot>(slot_count);
  std::string text_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace kha
