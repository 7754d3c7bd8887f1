// The commands of kha-engine, as `kha --help` lists them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kha::cli {

inline const std::vector<std::pair<std::string, std::string>>& engine_commands() {
  static const std::vector<std::pair<std::string, std::string>> commands{
      {"bench-decode", "decode steps of one attention on demand, for scripts/bench"},
      {"bench-experts", "a layer's mixture of experts on demand, for scripts/bench"},
      {"bench-step", "training steps on demand, for scripts/bench"},
      {"logits", "logits of a model after each token of a text or of ids"},
      {"diff", "largest difference of two models' logits on given text"},
      {"eval", "loss, perplexity and bits a byte of a text"},
      {"generate", "continue a text"},
      {"compare", "train settings side by side: same data, order and seed"},
      {"train", "train one model"}};
  return commands;
}

}  // namespace kha::cli
