#include "train/training_state.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "model/tensor_bytes.h"

namespace kha {
namespace {

std::filesystem::path optimizer_path(const std::filesystem::path& checkpoint) {
  return checkpoint / "trainer" / "optimizer.safetensors";
}

}  // namespace

void write_training_state(const std::filesystem::path& checkpoint, const TrainingState& state,
                          const RunConfig& config, const Optimizer& optimizer) {
  std::filesystem::create_directories(checkpoint / "trainer");
  write_file_atomically(checkpoint / "trainer" / "state.json", to_json(state));
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

RunConfig read_checkpoint_config(const std::filesystem::path& checkpoint) {
  return read_run_config(checkpoint / "trainer" / "config.toml", {});
}

OptimizerMatch read_optimizer_state(const std::filesystem::path& checkpoint, Optimizer& optimizer) {
  const SafetensorsFile file = open_moments(checkpoint);
  const auto read = [&](const std::string& name) {
    return read_tensor(file.bytes(name), file.at(name));
  };
  OptimizerMatch match;
  for (const auto& [name, parameter] : optimizer.trainable()) {
    if (const TensorInfo* mean = file.find("mean." + name)) {
      if (mean->shape != shape_of(parameter)) {
        refuse_moments(
            checkpoint, mean->name,
            fmt::format("the shape of its parameter, {}", fmt::join(shape_of(parameter), " x ")),
            fmt::format("{}", fmt::join(mean->shape, " x ")));
      }
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
