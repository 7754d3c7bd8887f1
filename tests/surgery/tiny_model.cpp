#include "surgery/tiny_model.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "kha/core/parameter_table.h"

namespace kha {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "kha-surgery-XXXXXX").string();
  path_ = ::mkdtemp(name.data());
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

ModelConfig tiny_config(const LayerKnocks& knocks) {
  ModelConfig c;
  c.vocab_size = 13;
  c.hidden_size = 20;
  c.intermediate_size = 9;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.eos_token_id = {3};
  c.knocks.all = knocks;
  return c;
}

Tensors random_tensors(const ModelConfig& config, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> normal;
  Tensors tensors;
  for (const auto& spec : parameter_table(config)) {
    auto& values = tensors[spec.name];
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const bool diagonal = spec.init == Init::identity && i / spec.shape[0] == i % spec.shape[0];
      const double start = spec.init == Init::ones || diagonal ? 1.0 : 0.0;
      values.push_back(start + 0.3 * normal(bits));
    }
  }
  return tensors;
}

namespace {

std::vector<TensorSpec> specs_of(const ModelConfig& config, const Tensors& tensors, DType dtype) {
  std::map<std::string, ParameterSpec> table;
  for (const auto& spec : parameter_table(config)) table.emplace(spec.name, spec);
  std::vector<TensorSpec> specs;
  for (const auto& [name, values] : tensors) {
    const auto size = static_cast<int64_t>(values.size());
    const auto entry = table.find(name);
    const bool fits = entry != table.end() && entry->second.elements() == size;
    specs.push_back({name, dtype, fits ? entry->second.shape : std::vector<int64_t>{size}});
  }
  return specs;
}

void write_file(const fs::path& file, const std::vector<TensorSpec>& specs,
                const Tensors& tensors) {
  SafetensorsWriter writer(file, specs);
  for (const auto& spec : specs)
    writer.write(spec.name, from_doubles(spec.dtype, tensors.at(spec.name)));
  writer.finish();
}

// [positions, out] = x [positions, in] times the stored weight, plus the bias where there is one.
std::vector<double> project(const ModelFiles& files, const std::string& name,
                            const std::vector<double>& x, int64_t in) {
  const auto weight = files.as_double(name + ".weight");
  const int64_t out = weight.size() / in, positions = x.size() / in;
  std::vector<double> bias(out, 0.0);
  if (files.find(name + ".bias")) bias = files.as_double(name + ".bias");
  std::vector<double> y(positions * out);
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias[o];
      for (int64_t i = 0; i < in; ++i) sum += weight[o * in + i] * x[t * in + i];
      y[t * out + o] = sum;
    }
  }
  return y;
}

double sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

// One map on [..., D] as the paper writes it, from the stored matrices.
std::vector<double> knock(const ModelFiles& files, const ModelConfig& c, int64_t layer,
                          KnockSlot slot, const std::vector<double>& x) {
  const auto apply = [&](const std::string& suffix, const std::vector<double>& input) {
    const std::string name = knock_name(layer, slot, suffix);
    return project(files, name.substr(0, name.rfind(".weight")), input, c.head_dim);
  };
  const KnockKind kind = c.knocks.at(layer).at(slot);
  if (kind == KnockKind::none) return x;
  if (kind == KnockKind::linear) return apply("weight", x);
  std::vector<double> y = kind == KnockKind::mlp ? apply("up.weight", x) : x;
  const auto gate = apply("gate.weight", x);
  for (size_t i = 0; i < y.size(); ++i) y[i] *= 2 * sigmoid(gate[i]);
  return kind == KnockKind::mlp ? apply("down.weight", y) : y;
}

void normalise(std::vector<double>& x, const std::vector<double>& gain, double eps) {
  const size_t width = gain.size();
  for (size_t start = 0; start < x.size(); start += width) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += x[start + i] * x[start + i];
    for (size_t i = 0; i < width; ++i) x[start + i] *= gain[i] / std::sqrt(sum / width + eps);
  }
}

// q [positions, H, D], k and v [positions, H_kv, D] -> [positions, H, D]
std::vector<double> attend(const ModelConfig& c, const std::vector<double>& q,
                           const std::vector<double>& k, const std::vector<double>& v) {
  const int64_t heads = c.num_attention_heads, kv_heads = c.num_key_value_heads, width = c.head_dim;
  const int64_t positions = q.size() / (heads * width);
  std::vector<double> out(q.size(), 0.0);
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto row = [&](int64_t s) { return (s * kv_heads + h / c.group()) * width; };
      std::vector<double> weight(t + 1);
      double total = 0;
      for (int64_t s = 0; s <= t; ++s) {
        double score = 0;
        for (int64_t i = 0; i < width; ++i) score += q[(t * heads + h) * width + i] * k[row(s) + i];
        total += weight[s] = std::exp(score / std::sqrt(width));
      }
      for (int64_t s = 0; s <= t; ++s) {
        for (int64_t i = 0; i < width; ++i) {
          out[(t * heads + h) * width + i] += weight[s] / total * v[row(s) + i];
        }
      }
    }
  }
  return out;
}

}  // namespace

void write_model(const fs::path& folder, const ModelConfig& config, const Tensors& tensors,
                 DType dtype) {
  fs::create_directories(folder);
  write_text(folder / "config.json", to_config_json(config));
  write_file(folder / "model.safetensors", specs_of(config, tensors, dtype), tensors);
}

void write_sharded_model(const fs::path& folder, const ModelConfig& config, const Tensors& tensors,
                         DType dtype) {
  fs::create_directories(folder);
  write_text(folder / "config.json", to_config_json(config));
  const std::string names[] = {"model-00001-of-00002.safetensors",
                               "model-00002-of-00002.safetensors"};
  std::vector<TensorSpec> shards[2];
  nlohmann::json index;
  uint64_t total = 0;
  for (const auto& spec : specs_of(config, tensors, dtype)) {
    const size_t shard = spec.name.find("layers.1.") != std::string::npos;
    shards[shard].push_back(spec);
    index["weight_map"][spec.name] = names[shard];
    total += spec.byte_size();
  }
  index["metadata"]["total_size"] = total;
  for (size_t i = 0; i < 2; ++i) write_file(folder / names[i], shards[i], tensors);
  write_text(folder / "model.safetensors.index.json", index.dump());
}

std::vector<double> attention_output(const fs::path& folder, int64_t layer) {
  const ModelConfig c = read_model_config(folder);
  const ModelFiles files = ModelFiles::open(folder);
  std::mt19937 bits(7);
  std::normal_distribution<double> normal;
  std::vector<double> x(5 * c.hidden_size);
  for (double& value : x) value = normal(bits);
  const std::string prefix = attention_prefix(layer);
  const auto mapped = [&](const std::string& projection, KnockSlot slot) {
    return knock(files, c, layer, slot, project(files, prefix + projection, x, c.hidden_size));
  };
  auto q = mapped("q_proj", KnockSlot::q), k = mapped("k_proj", KnockSlot::k);
  const auto v = mapped("v_proj", KnockSlot::v);
  normalise(q, files.as_double(prefix + "q_norm.weight"), c.rms_norm_eps);
  normalise(k, files.as_double(prefix + "k_norm.weight"), c.rms_norm_eps);
  return project(files, prefix + "o_proj", attend(c, q, k, v), c.num_attention_heads * c.head_dim);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= largest)) largest = std::abs(a[i] - b[i]);
  }
  return largest;
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace kha
