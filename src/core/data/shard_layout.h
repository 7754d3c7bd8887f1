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
inline constexpr std::int64_t header_size = 64;

// The end of the file, counted from its own first byte.
inline constexpr std::string_view end_magic = "KHATOEND";
inline constexpr std::int64_t tokens_at = 0;
inline constexpr std::int64_t documents_at = 8;
inline constexpr std::int64_t flags_at = 16;
inline constexpr std::int64_t ids_checksum_at = 24;
inline constexpr std::int64_t tables_checksum_at = 32;
inline constexpr std::int64_t ends_checksum_at = 40;
inline constexpr std::int64_t end_magic_at = 48;
inline constexpr std::int64_t footer_size = 56;

inline constexpr std::uint64_t has_prompts = 1;

// Where ids of this vocabulary are stored in two bytes.
inline constexpr std::int64_t most_u16_vocab = 65536;
inline constexpr std::int64_t most_vocab = std::int64_t{1} << 32;

inline std::int64_t id_width(std::int64_t vocab_size) {
  return vocab_size <= most_u16_vocab ? 2 : 4;
}

// Byte where the offsets begin.
inline std::int64_t offsets_begin(std::int64_t tokens, std::int64_t id_width) {
  return header_size + (tokens * id_width + 7) / 8 * 8;
}

// Bytes of the tables between ids and footer.
inline std::int64_t tables_size(std::int64_t documents, bool prompts) {
  return (documents + 1 + (prompts ? documents : 0)) * 8;
}

}  // namespace kha::shard_layout
