// Places in a token shard, shared by its writer and its reader (kha/core/token_shard.h).
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace kha::shard_layout {

static_assert(std::endian::native == std::endian::little,
              "shards are little endian and are mapped as they are");

inline constexpr std::string_view magic = "KHATOKEN";
inline constexpr std::int64_t version_at = 8;
inline constexpr std::int64_t id_type_at = 12;
inline constexpr std::int64_t vocab_size_at = 16;
inline constexpr std::int64_t tokenizer_hash_at = 24;
inline constexpr std::int64_t tokens_at = 32;
inline constexpr std::int64_t documents_at = 40;
inline constexpr std::int64_t offsets_at = 48;
inline constexpr std::int64_t alignment = 64;

// Where ids of this vocabulary are stored in two bytes.
inline constexpr std::int64_t most_u16_vocab = 65536;
inline constexpr std::int64_t most_vocab = std::int64_t{1} << 32;

inline std::int64_t id_width(std::int64_t vocab_size) {
  return vocab_size <= most_u16_vocab ? 2 : 4;
}

// Byte where the ids begin.
inline std::int64_t ids_begin(std::int64_t documents) {
  const std::int64_t end = offsets_at + (documents + 1) * 8;
  return (end + alignment - 1) / alignment * alignment;
}

}  // namespace kha::shard_layout
