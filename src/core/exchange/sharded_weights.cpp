#include "core/exchange/sharded_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "core/machine/worker_threads.h"
#include "core/surgery/edited_weights.h"
#include "kha/core/atomic_file.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using Shard = std::vector<PlannedTensor>;

constexpr std::size_t part_elements = std::size_t{1} << 20;   // that one thread converts at a time
constexpr std::size_t block_elements = std::size_t{1} << 14;  // of them at once in a core's cache

std::vector<Shard> in_shards(const std::vector<PlannedTensor>& tensors, std::uint64_t shard_size) {
  std::vector<Shard> shards(1);
  std::uint64_t bytes = 0;
  for (const PlannedTensor& tensor : tensors) {
    const std::uint64_t size = tensor.spec.byte_size();
    if (bytes > 0 && bytes + size > shard_size) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += size;
    shards.back().push_back(tensor);
  }
  return shards;
}

void write_start(const PlannedTensor& tensor, SafetensorsWriter& writer) {
  const TensorSpec& spec = tensor.spec;
  if (*tensor.start != Init::identity) {
    const std::vector<std::byte> zeros(std::min<std::size_t>(spec.byte_size(), part_elements));
    for (std::size_t left = spec.byte_size(); left > 0;) {
      const std::size_t some = std::min(left, zeros.size());
      writer.write_part(spec.name, std::span(zeros).first(some));
      left -= some;
    }
    return;
  }
  const auto rows = static_cast<std::size_t>(spec.shape.front());
  std::vector<double> values(rows * rows, 0.0);
  for (std::size_t i = 0; i < rows; ++i) values[i * rows + i] = 1;
  writer.write(spec.name, from_doubles(spec.dtype, values));
}

std::vector<std::byte> rounded_part(const ModelFiles& source, const TensorInfo& info,
                                    std::span<const std::byte> part, DType to) {
  std::vector<std::byte> rounded;
  rounded.reserve(part.size() / size_of(info.dtype) * size_of(to));
  const std::size_t block = block_elements * size_of(info.dtype);
  for (std::size_t begin = 0; begin < part.size(); begin += block) {
    const auto some = part.subspan(begin, std::min(block, part.size() - begin));
    const auto bytes = rounded_bytes(source, info, to_doubles(info.dtype, some), to);
    rounded.insert(rounded.end(), bytes.begin(), bytes.end());
  }
  return rounded;
}

// As many parts at a time as there are cores, written in their order.
void write_rounded(const ModelFiles& source, const PlannedTensor& tensor,
                   SafetensorsWriter& writer) {
  const TensorSpec& spec = tensor.spec;
  const TensorInfo& info = source.at(tensor.source_name());
  const auto bytes = source.bytes(tensor.source_name());
  if (spec.dtype == info.dtype) return writer.write(spec.name, bytes);
  const std::size_t part = part_elements * size_of(info.dtype);
  const std::size_t parts = (bytes.size() + part - 1) / part;
  for (std::size_t first = 0, count = 0; first < parts; first += count) {
    count = std::min(parts - first, static_cast<std::size_t>(usable_cores()));
    std::vector<std::vector<std::byte>> rounded(count);
    std::atomic<std::size_t> next{0};
    on_threads(static_cast<int>(count), [&] {
      for (std::size_t i = next++; i < count; i = next++) {
        const std::size_t begin = (first + i) * part;
        const auto some = bytes.subspan(begin, std::min(part, bytes.size() - begin));
        rounded[i] = rounded_part(source, info, some, spec.dtype);
      }
    });
    for (const auto& each : rounded) writer.write_part(spec.name, each);
  }
}

void write_tensor(const ModelFiles& source, const PlannedTensor& tensor,
                  SafetensorsWriter& writer) {
  const TensorSpec& spec = tensor.spec;
  if (tensor.start) return write_start(tensor, writer);
  if (!tensor.edit) return write_rounded(source, tensor, writer);
  writer.write(spec.name,
               edited_bytes(source, source.at(tensor.source_name()), tensor.edit, spec.dtype));
}

FileReport write_shard(const ModelFiles& source, const Shard& shard, const fs::path& path) {
  std::vector<TensorSpec> specs;
  for (const PlannedTensor& tensor : shard) specs.push_back(tensor.spec);
  SafetensorsWriter writer(path, specs);
  for (const PlannedTensor& tensor : shard) {
    write_tensor(source, tensor, writer);
    if (!tensor.start) source.let_go(tensor.source_name());
  }
  return writer.finish();
}

}  // namespace

WrittenWeights write_sharded_weights(const ModelFiles& source,
                                     const std::vector<PlannedTensor>& tensors,
                                     std::uint64_t shard_size, const fs::path& folder) {
  const std::vector<Shard> shards = in_shards(tensors, shard_size);
  WrittenWeights written;
  nlohmann::ordered_json places = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? "model.safetensors"
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    written.files[name] = write_shard(source, shards[i], folder / name);
    for (const PlannedTensor& tensor : shards[i]) {
      places[tensor.spec.name] = name;
      written.bytes += tensor.spec.byte_size();
    }
  }
  if (shards.size() > 1) {
    const nlohmann::ordered_json index{{"metadata", {{"total_size", written.bytes}}},
                                       {"weight_map", places}};
    write_file_atomically(folder / "model.safetensors.index.json",
                          std::string_view(index.dump(2) + "\n"));
  }
  return written;
}

}  // namespace kha
