// A fold leaves what latent attention caches alone, bit for bit: maps act behind the latents.
#include <gtest/gtest.h>

#include "kha/core/byte_tokenizer.h"
#include "kha/core/fold.h"
#include "kha/core/temporary_folder.h"
#include "model/attention_systems.h"

namespace kha::test {
namespace {

constexpr int64_t positions = 9;

struct Twins {
  LoadedModel maps, folded;
};

Twins twins_of(const ModelConfig& config, const TemporaryFolder& folder) {
  const auto before = folder.path() / "maps", after = folder.path() / "folded";
  std::filesystem::create_directories(before);
  write_model(before, config, random_model(config).parameters, *byte_tokenizer());
  fold_model(before, after);
  return {load_model(before), load_model(after)};
}

// The entries of the first layer for the same input.
CacheEntry entry_of(const LoadedModel& model, KnockPlan plan) {
  const at::NoGradGuard no_grad;
  const ModelConfig& c = model.config;
  const auto attention = make_attention(c, model.parameters, 0, plan);
  const RotaryTable rotary(positions, c.rotary_width(), c.rope_theta, at::kFloat, at::kCPU);
  const at::Tensor x = at::sin(at::arange(2 * positions * c.hidden_size, at::kFloat) * 1.7 + 0.3)
                           .view({2, positions, c.hidden_size});
  return attention->project(x, rotary, 0).entry;
}

bool only_linear(const LayerKnocks& knocks) {
  bool any = false;
  for (const KnockSlot slot : knock_slots) {
    const KnockKind kind = knocks.at(slot);
    if (kind != KnockKind::none && kind != KnockKind::linear) return false;
    any = any || kind == KnockKind::linear;
  }
  return any;
}

TEST(FoldedCache, OfLatentsIsTheSameBits) {
  int64_t compared = 0;
  for (const auto& [name, config] : legal_systems()) {
    const bool latent = config.attention == "mla" || config.attention == "gla";
    if (!only_linear(config.knocks.all) || !(latent || config.attention == "gta")) continue;
    const TemporaryFolder folder("folded-cache");
    const Twins twins = twins_of(config, folder);
    ASSERT_FALSE(twins.folded.config.knocks.any(config.num_hidden_layers)) << name;
    const CacheEntry folded = entry_of(twins.folded, KnockPlan::activation_space);
    for (const auto plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
      const CacheEntry entry = entry_of(twins.maps, plan);
      ASSERT_EQ(entry.size(), folded.size()) << name;
      // The tied state of gta holds its map; its rotated key, as all of a latent's entry, does not.
      for (size_t i = latent ? 0 : 1; i < entry.size(); ++i, ++compared) {
        EXPECT_TRUE(entry[i].equal(folded[i])) << name << ", " << to_string(plan) << ", " << i;
      }
      EXPECT_LT(largest(entry[0] - folded[0]), 1e-5 * largest(entry[0])) << name;
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace kha::test
