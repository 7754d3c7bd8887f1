#include "core/data/file_kind.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/store/foreign_format.h"

namespace kha {
namespace {

using namespace std::string_view_literals;

// Forms in which data sets are often kept; the rest is known to recognise_foreign_format().
constexpr std::array<std::pair<std::string_view, const char*>, 2> data_sets = {
    {{"PAR1"sv, "a Parquet file"}, {"ARROW1"sv, "an Arrow file"}}};

// A safetensors file: the length of its JSON header in eight bytes, then the header.
bool is_safetensors(std::string_view bytes) {
  if (bytes.size() < 9 || bytes[8] != '{') return false;
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  return header <= bytes.size() - 8;
}

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](unsigned char byte) {
    return (byte >= ' ' && byte != 0x7F) || (byte >= '\t' && byte <= '\r');
  });
}

template <class Id>
bool looks_like_ids(std::string_view bytes, std::size_t head_size) {
  if (bytes.empty() || bytes.size() % sizeof(Id) != 0) return false;
  // No vocabulary of today reaches 2^20; other data of four bytes soon exceeds it.
  constexpr std::uint64_t bound = std::uint64_t{1} << 20;
  const std::size_t count = std::min(bytes.size(), head_size) / sizeof(Id);
  for (std::size_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, bytes.data() + i * sizeof(Id), sizeof(Id));
    if (id >= bound) return false;
  }
  return true;
}

}  // namespace

std::string describe_file_kind(std::span<const std::byte> bytes) {
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::size_t head_size = 4096;
  if (view.empty()) return "an empty file";
  if (is_safetensors(view)) return "a safetensors file";
  for (const auto& [magic, name] : data_sets) {
    if (view.starts_with(magic)) return name;
  }
  if (const auto foreign = recognise_foreign_format(bytes)) return foreign->name;
  if (is_text(view.substr(0, head_size))) return "a text file";
  if (looks_like_ids<std::uint32_t>(view, head_size)) return "raw ids of 4 bytes without a header";
  if (looks_like_ids<std::uint16_t>(view, head_size)) {
    return "binary data without a header, perhaps raw ids of 2 bytes";
  }
  return "something else";
}

}  // namespace kha
