#include "core/store/shard_index.h"

#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "core/store/strict_json.h"
#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"

namespace kha {
namespace {

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

std::set<std::string> shard_names(const ShardIndex& index) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : index.file_of) names.insert(file);
  return names;
}

void require_all_present(const ShardIndex& index, const std::set<std::string>& names) {
  std::vector<std::string> absent;
  for (const std::string& name : names) {
    std::error_code error;
    if (!std::filesystem::exists(index.path.parent_path() / name, error))
      absent.push_back(shown(name));
  }
  if (absent.empty()) return;
  fail({.what = std::to_string(absent.size()) + " of " + std::to_string(names.size()) +
                " shards of the model are absent",
        .where = index.path.string(),
        .expected = "every file that the index names, beside it",
        .found = "no file" + listed(absent),
        .cause = "the download or copy was not finished",
        .next = "download the absent files again"});
}

// The tensors the shards hold against the ones the index promises.
std::vector<std::string> differences(const ShardIndex& index,
                                     std::span<const SafetensorsFile> shards) {
  std::vector<std::string> lines;
  std::map<std::string, std::string> held;
  for (const SafetensorsFile& shard : shards) {
    const std::string file = shard.path().filename().string();
    for (const TensorInfo& tensor : shard.tensors()) {
      const auto [first, is_new] = held.emplace(tensor.name, file);
      const auto promised = index.file_of.find(tensor.name);
      if (!is_new) {
        lines.push_back(shown(tensor.name) + ": in both " + first->second + " and " + file);
      } else if (promised == index.file_of.end()) {
        lines.push_back(shown(tensor.name) + ": in " + file + ", not in the index");
      }
    }
  }
  for (const auto& [tensor, file] : index.file_of) {
    const auto found = held.find(tensor);
    if (found == held.end()) {
      lines.push_back(shown(tensor) + ": in the index for " + shown(file) + ", not in that file");
    } else if (found->second != file) {
      lines.push_back(shown(tensor) + ": the index says " + shown(file) + ", it is in " +
                      found->second);
    }
  }
  return lines;
}

}  // namespace

ShardIndex read_shard_index(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const nlohmann::json json = parse_strict_json(text, path, "the shard index");
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty()) {
    fail({.what = "the shard index has no weight_map",
          .where = path.string(),
          .expected = "\"weight_map\": {tensor name: file name, ...}"});
  }
  ShardIndex index{.path = path, .file_of = {}};
  for (const auto& [tensor, name] : map->items()) {
    if (!name.is_string() || !is_plain_file_name(name.get_ref<const std::string&>())) {
      fail({.what = "the shard index names a shard that is no plain file name",
            .where = path.string() + ", tensor " + shown(tensor),
            .expected = "the name of a file beside the index",
            .found = shown(name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
            .next = "download the index again, or correct the name"});
    }
    index.file_of.emplace(tensor, name.get<std::string>());
  }
  return index;
}

std::vector<SafetensorsFile> open_shards(const ShardIndex& index) {
  const std::set<std::string> names = shard_names(index);
  require_all_present(index, names);
  std::vector<SafetensorsFile> shards;
  for (const std::string& name : names) {
    shards.push_back(SafetensorsFile::open(index.path.parent_path() / name));
  }
  const std::vector<std::string> lines = differences(index, shards);
  if (!lines.empty()) {
    fail({.what = "the shard index and the shards do not agree on " + std::to_string(lines.size()) +
                  " tensors",
          .where = index.path.string(),
          .expected = "every tensor once, in the shard that the index names",
          .found = listed(lines),
          .cause = "files of two versions of the model were mixed",
          .next = "download or write all files of the model again"});
  }
  return shards;
}

}  // namespace kha
