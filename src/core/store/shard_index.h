// model.safetensors.index.json: which tensor lies in which shard.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kha/core/safetensors.h"

namespace kha {

struct ShardIndex {
  std::filesystem::path path;
  std::map<std::string, std::string> file_of;  // tensor name -> file name beside the index
};

// Errors: not JSON, no weight_map, names repeated, a shard name that is no plain file name.
ShardIndex read_shard_index(const std::filesystem::path& path);

// The shards in the order of their names, each opened. Errors: absent shards (all of them named),
// and every difference between the index and what the shards hold.
std::vector<SafetensorsFile> open_shards(const ShardIndex& index);

}  // namespace kha
