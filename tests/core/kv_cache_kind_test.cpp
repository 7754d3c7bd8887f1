// What a KV cache costs a token, of every system and in each kind of numbers.
#include "kha/core/kv_cache_kind.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/model_config.h"

namespace kha {
namespace {

using testing::HasSubstr;

ModelConfig at_paper_sizes(const std::string& attention, int64_t key_value_heads) {
  ModelConfig c;
  c.hidden_size = 1536;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 32;
  c.num_key_value_heads = key_value_heads;
  c.head_dim = 128;
  c.attention = attention;
  if (attention == "gqa") return c;
  c.rope_head_dim = 64;
  if (attention == "gta") return c;
  c.latent_heads = attention == "mla" ? 1 : 2;
  c.kv_latent = 512 / c.latent_heads;
  return c;
}

struct Bytes {
  std::string attention;
  int64_t key_value_heads;
  int64_t bfloat16, int8;  // of a token in one layer
};

TEST(KvCacheKind, BytesATokenOfEachSystem) {
  // int8: the elements, and 4 bytes for each head of each tensor.
  for (const Bytes& n :
       {Bytes{"gqa", 32, 16384, 8192 + 4 * 64}, Bytes{"gqa", 4, 2048, 1024 + 4 * 8},
        Bytes{"gqa", 1, 512, 256 + 4 * 2}, Bytes{"gta", 4, 1152, 576 + 4 * 5},
        Bytes{"mla", 32, 1152, 576 + 4 * 2}, Bytes{"gla", 32, 1152, 576 + 4 * 3}}) {
    const ModelConfig c = at_paper_sizes(n.attention, n.key_value_heads);
    EXPECT_EQ(cache_bytes_per_token(c, KvCacheKind::model, 2), 3 * n.bfloat16) << n.attention;
    EXPECT_EQ(cache_bytes_per_token(c, KvCacheKind::model, 4), 6 * n.bfloat16) << n.attention;
    for (const int64_t element : {2, 4, 8}) {
      EXPECT_EQ(cache_bytes_per_token(c, KvCacheKind::int8, element), 3 * n.int8) << n.attention;
    }
  }
}

TEST(KvCacheKind, NamesGoBothWays) {
  for (const std::string& name : kv_cache_kind_names()) {
    EXPECT_EQ(to_string(parse_kv_cache_kind(name, "--kv-cache")), name);
  }
  const std::string message = thrown([] { parse_kv_cache_kind("int9", "--kv-cache"); });
  EXPECT_THAT(message, HasSubstr("unknown kind of KV cache `int9`"));
  EXPECT_THAT(message, HasSubstr("int8"));
  EXPECT_THAT(message, HasSubstr("--kv-cache"));
}

}  // namespace
}  // namespace kha
