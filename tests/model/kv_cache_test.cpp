// The cache of every system: its bytes, and what int8 makes of a text.
#include "modules/kv_cache.h"

#include <gtest/gtest.h>

#include "model/attention_systems.h"

namespace kha::test {
namespace {

constexpr int64_t length = 13;

at::Tensor logits_through(KvCacheKind kind, const ModelConfig& config, const Parameters& parameters,
                          const at::Tensor& ids, const std::vector<int64_t>& stretches) {
  const at::NoGradGuard no_grad;
  const Decoder decoder(config, parameters, KnockPlan::activation_space, ids.size(1));
  KvCache cache(config, ids.size(0), ids.size(1), at::kDouble, at::kCPU, kind);
  std::vector<at::Tensor> logits;
  for (const int64_t next : stretches) {
    logits.push_back(decoder.logits(decoder.hidden(ids.narrow(1, cache.length(), next), &cache)));
  }
  return at::cat(logits, 1);
}

TEST(KvCache, HoldsTheBytesThatAreCounted) {
  for (const auto& [name, config] : bare_systems()) {
    for (const auto kind : {KvCacheKind::model, KvCacheKind::int8}) {
      for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
        const KvCache cache(config, 3, 11, type, at::kCPU, kind);
        const auto element = static_cast<int64_t>(c10::elementSize(type));
        EXPECT_EQ(cache.bytes(), 3 * 11 * cache_bytes_per_token(config, kind, element)) << name;
      }
    }
  }
}

// s = max |x| / 127 as float32, x ~ s round(x / s), a head of a position at a time.
at::Tensor rounded_by_hand(const at::Tensor& x) {
  at::Tensor y = x.contiguous().clone();
  double* value = y.mutable_data_ptr<double>();
  const int64_t width = x.size(-1);
  for (int64_t row = 0; row < y.numel() / width; ++row, value += width) {
    double largest = 0;
    for (int64_t i = 0; i < width; ++i) largest = std::max(largest, std::abs(value[i]));
    const double step = static_cast<double>(static_cast<float>(largest) / 127.0f);
    for (int64_t i = 0; i < width; ++i) value[i] = step * std::nearbyint(value[i] / step);
  }
  return y;
}

TEST(KvCache, InInt8EveryEntryIsRoundedByHeadAndPosition) {
  for (const auto& [name, config] : bare_systems()) {
    const auto attention = make_attention(config, random_parameters(config), 0, {});
    const RotaryTable rotary(length, config.rotary_width(), 1e4, at::kDouble, at::kCPU);
    const at::Tensor x = at::sin(at::arange(2 * length * config.hidden_size, at::kDouble) * 1.7)
                             .view({2, length, config.hidden_size});
    const CacheEntry entry = attention->project(x, rotary, 0).entry;
    KvCache cache(config, 2, length + 3, at::kDouble, at::kCPU, KvCacheKind::int8);
    CacheEntry all;
    for (const auto& [first, count] : {std::pair{0, 9}, {9, 4}}) {
      CacheEntry part;
      for (const at::Tensor& tensor : entry) part.push_back(tensor.narrow(1, first, count));
      for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
        all = cache.append(layer, part);
      }
      cache.advance(count);
    }
    ASSERT_EQ(all.size(), entry.size()) << name;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_LT(largest(all[i] - rounded_by_hand(entry[i])), 1e-6 * largest(entry[i])) << name;
    }
  }
}

// What attention reads is what the cache holds, for new positions too.
TEST(KvCache, InInt8TheStretchesOfATextChangeNothing) {
  for (const auto& [name, config] : legal_systems()) {
    const Parameters parameters = random_parameters(config);
    const at::Tensor ids = some_ids(2, length);
    const auto int8 = [&](const std::vector<int64_t>& stretches) {
      return logits_through(KvCacheKind::int8, config, parameters, ids, stretches);
    };
    const at::Tensor once = int8({length});
    for (const std::vector<int64_t>& stretches :
         {std::vector<int64_t>(length, 1), {7, 1, 2, 3}, {1, 12}}) {
      EXPECT_LT(largest(int8(stretches) - once), 1e-9 * largest(once)) << name;
    }
  }
}

TEST(KvCache, InInt8LogitsAreCloseAndNotTheSame) {
  for (const auto& [name, config] : bare_systems()) {
    const Parameters parameters = random_parameters(config);
    const at::Tensor ids = some_ids(2, length), exact = logits_of(config, parameters, ids);
    const double off =
        largest(logits_through(KvCacheKind::int8, config, parameters, ids, {7, 1, 2, 3}) - exact);
    EXPECT_GT(off, 1e-6 * largest(exact)) << name;
    EXPECT_LT(off, 0.05 * largest(exact)) << name;
  }
}

}  // namespace
}  // namespace kha::test
