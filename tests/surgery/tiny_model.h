// Small random models in a folder of their own, and a float64 attention layer to compare them by.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kha/core/model_config.h"
#include "kha/core/model_files.h"

namespace kha {

// A folder that lives as long as the object.
class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  ~TempFolder();
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// No two sizes are equal: 4 query heads, 2 KV heads, D = 6, d = 20, 2 layers.
ModelConfig tiny_config(const LayerKnocks& knocks = {});

using Tensors = std::map<std::string, std::vector<double>>;

// Random values for every tensor of the config; maps are the identity (or zero) plus noise, so that
// none is symmetric.
Tensors random_tensors(const ModelConfig& config, unsigned seed = 1);

// config.json and model.safetensors. A tensor whose values do not fill the
// shape of parameter_table, or that it does not have, is written flat.
void write_model(const std::filesystem::path& folder, const ModelConfig& config,
                 const Tensors& tensors, DType dtype = DType::f64);

// The same in two shards with an index; layer 1 stands in the second.
void write_sharded_model(const std::filesystem::path& folder, const ModelConfig& config,
                         const Tensors& tensors, DType dtype = DType::f64);

// The output of one attention layer for fixed inputs of 5 positions: projections, maps, QK-norm,
// causal softmax, output projection, written out in loops. [5, d]
std::vector<double> attention_output(const std::filesystem::path& folder, int64_t layer);

double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

void write_text(const std::filesystem::path& file, const std::string& text);
std::string read_text(const std::filesystem::path& file);

}  // namespace kha
