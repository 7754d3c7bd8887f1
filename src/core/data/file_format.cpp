#include "core/data/file_format.h"

#include <array>
#include <string_view>
#include <utility>

namespace kha {
namespace {

using Entry = std::pair<std::string_view, FileFormat>;

constexpr std::array<Entry, 8> formats = {{
    {".jsonl", {FileContent::lines, Compression::none}},
    {".jsonl.gz", {FileContent::lines, Compression::gzip}},
    {".jsonl.zst", {FileContent::lines, Compression::zstd}},
    {".txt.gz", {FileContent::text, Compression::gzip}},
    {".txt.zst", {FileContent::text, Compression::zstd}},
    {".parquet", {FileContent::parquet, Compression::none}},
    {".tokens", {FileContent::shard, Compression::none}},
    {".bin", {FileContent::raw_ids, Compression::none}},
}};

}  // namespace

FileFormat file_format(const std::string& name) {
  for (const auto& [ending, format] : formats) {
    if (name.ends_with(ending)) return format;
  }
  return {};
}

}  // namespace kha
