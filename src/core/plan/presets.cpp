#include "kha/core/presets.h"

#include <fmt/format.h>

#include <cmath>

#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

constexpr int64_t paper_vocabulary = 157184;  // the one that gives the paper's totals, tied

struct Sizes {
  int64_t layers, width, feed_forward;  // of an expert where there are any
  int64_t heads, kv_heads, head_dim;
  int64_t experts = 0, active = 0;
};

std::vector<std::string> sets_of(const Sizes& s) {
  std::vector<std::string> sets;
  const auto set = [&](const char* key, int64_t value) {
    sets.push_back(fmt::format("model.{}={}", key, value));
  };
  set("num_hidden_layers", s.layers);
  set("hidden_size", s.width);
  set("intermediate_size", s.feed_forward);
  set("num_attention_heads", s.heads);
  set("num_key_value_heads", s.kv_heads);
  set("head_dim", s.head_dim);
  set("experts.count", s.experts);
  set("experts.active", s.active);
  set("experts.width", s.experts == 0 ? 0 : s.feed_forward);
  // Nothing is left of the model that the configuration had before.
  for (const char* key : {"experts.shared", "experts.first_dense", "rope_head_dim", "kv_latent",
                          "latent_heads", "query_latent", "value_head_dim", "shared_key_width"})
    set(key, 0);
  sets.push_back("model.content_bias=false");
  sets.push_back("model.attention=gqa");
  sets.push_back("model.tie_word_embeddings=true");
  return sets;
}

void add(std::vector<ModelPreset>& presets, const std::string& name, const std::string& meaning,
         const Sizes& sizes, int64_t vocabulary = paper_vocabulary) {
  presets.push_back({name, meaning, sets_of(sizes), vocabulary});
}

void add_paper(std::vector<ModelPreset>& p) {
  add(p, "dense-0.61b", "paper, table 5: dense 0.61B", {24, 1024, 3072, 32, 4, 128});
  add(p, "dense-1.68b", "paper, table 5: dense 1.68B", {24, 2048, 6144, 32, 4, 128});
  add(p, "dense-3.94b", "paper, table 5: dense 3.94B", {36, 2560, 9728, 32, 4, 128});
  add(p, "moe-2.3b", "paper, table 5: A0.44B-2.3B", {12, 1152, 768, 32, 4, 128, 64, 4});
  add(p, "moe-6.6b", "paper, table 5: A0.8B-6.6B", {18, 1536, 1152, 32, 4, 128, 64, 4});
  add(p, "moe-14.6b", "paper, table 5: A1.6B-14.6B", {23, 2048, 1536, 32, 4, 128, 64, 4});
  add(p, "moe-6.1b", "paper, main model 6.1B-A1.01B (layers and widths inferred from its counts)",
      {18, 2048, 384, 32, 4, 128, 128, 8});
  add(p, "moe-6.6b-mha", "paper, table 3: A0.8B-6.6B with MHA 16/16",
      {18, 1536, 1152, 16, 16, 128, 64, 4});
  add(p, "moe-6.6b-gqa8", "paper, table 3: A0.8B-6.6B with GQA 16/8",
      {18, 1536, 1152, 16, 8, 128, 64, 4});
  add(p, "moe-6.6b-mqa", "paper, table 3: A0.8B-6.6B with MQA 32/1",
      {18, 1536, 1152, 32, 1, 128, 64, 4});
}

// Heads of 32 channels, of 8 for MQA; a quarter to a third of the layers; 32 experts, 2 of a token.
void add_small(std::vector<ModelPreset>& p) {
  constexpr int64_t bytes_and_end = 257;
  const auto relative = [&](const std::string& of, const Sizes& sizes) {
    add(p, of + "-small", "for two cores, in the proportions of " + of, sizes, bytes_and_end);
  };
  relative("dense-0.61b", {6, 64, 192, 8, 1, 32});
  relative("dense-1.68b", {6, 128, 384, 8, 1, 32});
  relative("dense-3.94b", {9, 160, 608, 8, 1, 32});
  relative("moe-2.3b", {3, 144, 96, 16, 2, 32, 32, 2});
  relative("moe-6.6b", {6, 96, 72, 8, 1, 32, 32, 2});
  relative("moe-14.6b", {8, 128, 96, 8, 1, 32, 32, 2});
  relative("moe-6.1b", {6, 128, 24, 8, 1, 32, 32, 2});
  relative("moe-6.6b-mha", {6, 96, 72, 4, 4, 32, 32, 2});
  relative("moe-6.6b-gqa8", {6, 96, 72, 4, 2, 32, 32, 2});
  relative("moe-6.6b-mqa", {6, 96, 72, 32, 1, 8, 32, 2});
}

// Predicted positions count: 512 sequences of `context` a step.
RecipePreset recipe(const std::string& name, const std::string& meaning, double tokens,
                    int64_t context, const std::string& lr, const std::string& model) {
  constexpr int64_t sequences = 512;
  const auto steps =
      static_cast<int64_t>(std::llround(tokens / static_cast<double>(sequences * context)));
  return {name,
          meaning,
          {"train.steps=" + std::to_string(steps), "train.context=" + std::to_string(context),
           "train.batch=1", "train.accumulate=" + std::to_string(sequences), "optimizer.lr=" + lr,
           "optimizer.beta1=0.9", "optimizer.beta2=0.95", "optimizer.eps=1e-8",
           "optimizer.weight_decay=0.1", "optimizer.clip=1.0", "optimizer.knock_decay=\"paper\"",
           "schedule.kind=\"cosine\"",
           fmt::format("schedule.warmup_steps={}", std::llround(0.05 * static_cast<double>(steps))),
           "schedule.floor=0.1"},
          tokens,
          context,
          std::stod(lr),
          model};
}

}  // namespace

const std::vector<ModelPreset>& model_presets() {
  static const std::vector<ModelPreset> presets = [] {
    std::vector<ModelPreset> all;
    add_paper(all);
    add_small(all);
    return all;
  }();
  return presets;
}

const ModelPreset* find_model_preset(const std::string& name) {
  for (const ModelPreset& preset : model_presets()) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

const ModelPreset& model_preset(const std::string& name, const std::string& where) {
  if (const auto* preset = find_model_preset(name)) return *preset;
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) names.push_back(preset.name);
  fail({.what = "there is no model `" + name + "`" + did_you_mean(name, names),
        .where = where,
        .next = "kha plan --list"});
}

const std::vector<RecipePreset>& recipe_presets() {
  static const std::vector<RecipePreset> presets{
      recipe("exploratory", "paper: 100B tokens, 4,096 long, 2.1M a step, lr 7.5e-4", 100e9, 4096,
             "7.5e-4", "moe-6.6b"),
      recipe("ablation", "paper: as exploratory, 75B tokens", 75e9, 4096, "7.5e-4", "moe-6.6b"),
      recipe("main", "paper: 1T tokens, 8,192 long, 4.2M a step, lr 4.78e-4", 1e12, 8192, "4.78e-4",
             "moe-6.1b")};
  return presets;
}

const RecipePreset& recipe_preset(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const RecipePreset& preset : recipe_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  fail({.what = "there is no recipe `" + name + "`" + did_you_mean(name, names),
        .where = where,
        .next = "kha plan --list"});
}

}  // namespace kha
