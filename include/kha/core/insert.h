// Insertion: maps put into a model that has none, without changing what it computes. Linear maps,
// `up` and `down` start as the identity, gates at zero, where 2 sigmoid(0) is one.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kha/core/knock_setting.h"
#include "kha/core/model_config.h"

namespace kha {

struct InsertOptions {
  LayerKnocks knocks;
  std::set<std::int64_t> layers = {};        // empty: all
  std::uint64_t shard_size = 5'000'000'000;  // bytes of tensors a file
};

struct InsertReport {
  ModelConfig before;
  ModelConfig after;
  std::vector<std::string> added;     // names of new tensors
  std::vector<std::string> warnings;  // of check_tensors
  std::vector<std::string> left_out;  // files and folders that were not taken along
};

// Reads the model folder `in` and writes `out`, which appears whole or not at all: the tensors byte
// for byte, the maps in the type of the projection that each follows. In memory of one tensor.
//
// Errors: `in` is no model or a damaged checkpoint; tensors and config.json do not fit; a map may
// not stand there (with the reason), or one is there already; a layer that does not exist; `out`
// exists; the disk.
InsertReport insert_maps(const std::filesystem::path& in, const std::filesystem::path& out,
                         const InsertOptions& options);

}  // namespace kha
