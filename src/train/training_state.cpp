#include "train/training_state.h"

#include <ATen/Functions.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "model/tensor_bytes.h"

namespace kha {
namespace {

std::filesystem::path state_path(const std::filesystem::path& checkpoint) {
  return checkpoint / "trainer" / "state.json";
}

std::filesystem::path optimizer_path(const std::filesystem::path& checkpoint) {
  return checkpoint / "trainer" / "optimizer.safetensors";
}

nlohmann::ordered_json to_json(const TrainingState& state) {
  return {{"version", 1},
          {"step", state.step},
          {"tokens", state.tokens},
          {"seconds", state.seconds},
          {"data",
           {{"step", state.data.step},
            {"sequence_index", state.data.sequence_index},
            {"epoch", state.data.epoch},
            {"window_begin", state.data.window_begin}}},
          {"batches_left_out", state.batches_left_out},
          {"ran", state.ran}};
}

nlohmann::json parse_state(const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    fail({.what = "this checkpoint has no training state",
          .where = path.string(),
          .cause = "the folder is a model without a trainer/ part, as `kha fold` writes it",
          .next = "start from its weights instead: --set init.from=" +
                  path.parent_path().parent_path().string()});
  }
  return json;
}

}  // namespace

void write_training_state(const std::filesystem::path& checkpoint, const TrainingState& state,
                          const RunConfig& config, const Optimizer& optimizer) {
  std::filesystem::create_directories(checkpoint / "trainer");
  write_file_atomically(state_path(checkpoint), to_json(state).dump(2) + "\n");
  write_file_atomically(checkpoint / "trainer" / "config.toml", to_toml(config));
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& [name, parameter] : optimizer.trainable()) {
    const Moments& moments = optimizer.moments(name);
    tensors.emplace_back("mean." + name, moments.mean);
    tensors.emplace_back("square." + name, moments.square);
    tensors.emplace_back("steps." + name, moments.steps);
  }
  write_tensors(optimizer_path(checkpoint), tensors);
}

TrainingState read_training_state(const std::filesystem::path& checkpoint) {
  const auto path = state_path(checkpoint);
  const auto json = parse_state(path);
  try {
    const auto& data = json.at("data");
    return {.step = json.at("step"),
            .tokens = json.at("tokens"),
            .seconds = json.at("seconds"),
            .data = {.step = data.at("step"),
                     .sequence_index = data.at("sequence_index"),
                     .epoch = data.at("epoch"),
                     .window_begin = data.at("window_begin")},
            .batches_left_out = json.value("batches_left_out", int64_t{0}),
            .ran = json.at("ran").get<WhatRan>()};
  } catch (const nlohmann::json::exception& error) {
    fail({.what = "the training state cannot be read",
          .where = path.string(),
          .found = error.what(),
          .cause = "another version of kha wrote it, or it was edited"});
  }
}

RunConfig read_checkpoint_config(const std::filesystem::path& checkpoint) {
  return read_run_config(checkpoint / "trainer" / "config.toml", {});
}

OptimizerMatch read_optimizer_state(const std::filesystem::path& checkpoint, Optimizer& optimizer) {
  const SafetensorsFile file = SafetensorsFile::open(optimizer_path(checkpoint));
  const auto read = [&](const std::string& name) {
    return read_tensor(file.bytes(name), file.at(name));
  };
  OptimizerMatch match;
  for (const auto& [name, parameter] : optimizer.trainable()) {
    const TensorInfo* info = file.find("mean." + name);
    if (info && info->shape == shape_of(parameter)) {
      optimizer.set(name, {read("mean." + name), read("square." + name), read("steps." + name)});
      match.kept.push_back(name);
    } else {
      match.fresh.push_back(name);
    }
  }
  for (const TensorInfo& info : file.tensors()) {
    const bool mean = info.name.starts_with("mean.");
    if (mean && !optimizer.has(info.name.substr(5))) match.unused.push_back(info.name.substr(5));
  }
  return match;
}

}  // namespace kha
