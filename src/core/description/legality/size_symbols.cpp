#include "core/description/legality/size_symbols.h"

#include <stdexcept>
#include <vector>

namespace kha {
namespace {

struct Symbol {
  const char* name;
  int64_t ModelConfig::*size;
  int64_t value;  // a prime: no two symbols, and no sum or difference of two, are alike
  const char* meaning;
};

const std::vector<Symbol>& symbols() {
  static const std::vector<Symbol> list{
      {"H", &ModelConfig::num_attention_heads, 401, "query heads"},
      {"H_kv", &ModelConfig::num_key_value_heads, 211, "KV heads"},
      {"D", &ModelConfig::head_dim, 101, "width of a head"},
      {"D_v", &ModelConfig::value_head_dim, 83, "width of a value head"},
      {"d_R", &ModelConfig::rope_head_dim, 53, "rotated width"},
      {"h_c", &ModelConfig::latent_heads, 29, "latent heads (1 in mla)"},
      {"d_c", &ModelConfig::kv_latent, 307, "width of a latent head"},
      {"D_s", &ModelConfig::shared_key_width, 601, "width of a key that all heads share"}};
  return list;
}

}  // namespace

ModelConfig model_of_symbols() {
  ModelConfig config;
  for (const Symbol& symbol : symbols()) config.*symbol.size = symbol.value;
  config.query_latent = 503;
  return config;
}

std::string symbol_of(int64_t size) {
  if (size == 1) return "1";
  for (const Symbol& a : symbols()) {
    if (a.value == size) return a.name;
  }
  for (const Symbol& a : symbols()) {
    for (const Symbol& b : symbols()) {
      if (a.value + b.value == size) return std::string("(") + a.name + " + " + b.name + ")";
      if (a.value - b.value == size) return std::string("(") + a.name + " - " + b.name + ")";
    }
  }
  throw std::logic_error("a size of the cache that has no symbol: " + std::to_string(size));
}

std::string product_of(int64_t heads, int64_t width) {
  if (heads == 1) return symbol_of(width);
  return width == 1 ? symbol_of(heads) : symbol_of(heads) + " " + symbol_of(width);
}

std::string meaning_of_symbols() {
  std::string text;
  for (const Symbol& symbol : symbols()) {
    text += (text.empty() ? "" : ", ") + std::string(symbol.name) + " " + symbol.meaning;
  }
  return text;
}

}  // namespace kha
