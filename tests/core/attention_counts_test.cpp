// What each attention costs at d = 1536, heads of 128, 32 query heads: parameters of one layer's
// attention, cache elements a token, FLOPs of a query for each position it sees, of a decode step
// and of the maps.
#include <gtest/gtest.h>

#include <algorithm>

#include "kha/core/attention_system.h"
#include "kha/core/counts.h"
#include "kha/core/model_config.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

struct Numbers {
  std::string name;
  ModelConfig config;
  int64_t parameters, cache;
  double context;
  int64_t linear_parameters;  // of maps on q, k and v, as far as they are legal
  double linear_flops;        // a token
  double decode_context;      // a token and cached position
  double decode_mega;         // MFLOP of a token at 4,096 positions, projections included
};

ModelConfig heads(int64_t key_value_heads) {
  ModelConfig c;
  c.hidden_size = 1536;
  c.num_attention_heads = 32;
  c.num_key_value_heads = key_value_heads;
  c.head_dim = 128;
  return c;
}

ModelConfig split(const std::string& attention, int64_t key_value_heads, int64_t latent_heads,
                  int64_t latent, int64_t query_latent) {
  ModelConfig c = heads(key_value_heads);
  c.attention = attention;
  c.rope_head_dim = 64;
  c.latent_heads = latent_heads;
  c.kv_latent = latent;
  c.query_latent = query_latent;
  return c;
}

ModelConfig named(const std::string& attention, ModelConfig c) {
  c.attention = attention;
  return c;
}

ModelConfig collaborative(int64_t shared_key_width) {
  ModelConfig c = named("collaborative", heads(32));
  c.shared_key_width = shared_key_width;
  return c;
}

std::vector<Numbers> table() {
  return {
      {"MHA", heads(32), 25166080, 8192, 16384, 49152, 3145728, 16384, 117.4},
      {"GQA", heads(4), 14156032, 1024, 16384, 49152, 1310720, 16384, 95.4},
      {"MQA", heads(1), 12976384, 256, 16384, 49152, 1114112, 16384, 93.1},
      {"GTA", split("gta", 4, 0, 0, 0), 13467904, 576, 16384, 32768, 1179648, 16384, 94.0},
      {"MLA", split("mla", 32, 1, 512, 1024), 19236352, 576, 20480, 49152, 3145728, 69632, 323.7},
      {"MLA alone", split("mla", 32, 1, 512, 0), 20808192, 576, 20480, 49152, 3145728, 69632,
       326.8},
      {"GLA", split("gla", 32, 2, 256, 1024), 17139200, 576, 20480, 49152, 3145728, 36864, 185.3},
      {"GLA alone", split("gla", 32, 2, 256, 0), 18711040, 576, 20480, 49152, 3145728, 36864,
       188.4},
      {"talking MHA", named("talking", heads(32)), 25168128, 8192, 20480, 49152, 3145728, 20480,
       134.2},
      {"talking GQA", named("talking", heads(4)), 14158080, 1024, 20480, 49152, 1310720, 20480,
       112.2},
      {"collaborative", collaborative(4096), 25296896, 8192, 270336, 16384, 1048576, 270336,
       1157.8},
      {"a quarter as wide", collaborative(1024), 15761408, 5120, 73728, 16384, 1048576, 73728,
       333.5},
      // As GTA; the map on k is 64 wide and acts, as that on v, once a query head.
      {"GTA, v alone", split("gta_value", 4, 0, 0, 0), 13467904, 576, 16384, 32768, 2097152, 16384,
       94.0},
      {"GTA apart", split("gta_apart", 4, 0, 0, 0), 13467648, 576, 16384, 36864, 2359296, 16384,
       94.0}};
}

TEST(AttentionCounts, AreThoseOfTheSystems) {
  for (const Numbers& n : table()) {
    const auto& system = attention_declaration(n.config.attention, "");
    system.check(n.config, n.name);
    int64_t parameters = 0;
    for (const AttentionTensor& tensor : system.tensors(n.config)) {
      parameters += tensor.outputs * std::max<int64_t>(tensor.inputs, 1);
    }
    EXPECT_EQ(parameters, n.parameters) << n.name;
    EXPECT_EQ(system.cache_elements(n.config), n.cache) << n.name;
    EXPECT_EQ(system.context_flops(n.config), n.context) << n.name;
  }
}

TEST(AttentionCounts, OfADecodeStep) {
  for (const Numbers& n : table()) {
    const auto& system = attention_declaration(n.config.attention, "");
    EXPECT_EQ(system.decode_context_flops(n.config), n.decode_context) << n.name;
    EXPECT_NEAR(attention_decode_flops(n.config, 4096) / 1e6, n.decode_mega, 0.05) << n.name;
  }
}

// What each token costs beside the positions that it sees; matrices that mix logits and weights are
// in the latter, those that weigh shared channels take one multiplication an element.
TEST(AttentionCounts, OfTheProductsOfAToken) {
  const auto flops = [](const ModelConfig& c) {
    double sum = 0;
    for (const AttentionTensor& tensor : attention_declaration(c.attention, "").tensors(c)) {
      sum += tensor.token_flops * static_cast<double>(tensor.outputs * tensor.inputs);
    }
    return sum;
  };
  EXPECT_EQ(flops(heads(4)), 28311552);
  EXPECT_EQ(flops(named("talking", heads(4))), 28311552);
  EXPECT_EQ(flops(collaborative(4096)), 50331648 + 32 * 4096);
  EXPECT_EQ(flops(collaborative(1024)), 31457280 + 32 * 1024);
  EXPECT_EQ(
      flops_per_token(named("talking", heads(4)), 1).forward - flops_per_token(heads(4), 1).forward,
      4.0 * (20480 - 16384));  // four layers, one position each
}

TEST(AttentionCounts, OfLinearMaps) {
  for (const Numbers& n : table()) {
    int64_t parameters = 0;
    double flops = 0;
    for (const KnockPlace& place : attention_declaration(n.config.attention, "").places) {
      if (std::ranges::find(place.legal, KnockKind::linear) == place.legal.end()) continue;
      const HeadRows rows = place.rows(n.config);
      parameters += rows.width * rows.width;
      flops += 2.0 * static_cast<double>(rows.heads * rows.width * rows.width);
    }
    EXPECT_EQ(parameters, n.linear_parameters) << n.name;
    EXPECT_EQ(flops, n.linear_flops) << n.name;
  }
}

}  // namespace
}  // namespace kha
