// Tiny models of every attention system, with every legal setting of its maps.
#pragma once

#include <string>
#include <vector>

#include "kha/core/attention_system.h"
#include "model/tiny_model.h"

namespace kha::test {

struct SystemCase {
  std::string name;
  ModelConfig config;
};

// No two widths are equal: D = 6 beside d_R = 4, latents of 10, queries of 14.
inline ModelConfig with_parts(const std::string& attention, int64_t latent_heads,
                              int64_t query_latent) {
  ModelConfig c = tiny_config();
  c.attention = attention;
  c.rope_head_dim = 4;
  if (attention.starts_with("gta")) return c;
  c.num_key_value_heads = c.num_attention_heads;
  c.kv_latent = 10;
  c.latent_heads = latent_heads;
  c.query_latent = query_latent;
  return c;
}

// 24 = H D channels are MHA's; of 15, which are not divided among 4 heads, 12 are rotated.
inline ModelConfig collaborative(int64_t shared_key_width, bool content_bias) {
  ModelConfig c = tiny_config();
  c.attention = "collaborative";
  c.num_key_value_heads = c.num_attention_heads;
  c.shared_key_width = shared_key_width;
  c.content_bias = content_bias;
  c.attention_bias = content_bias;
  return c;
}

inline std::vector<SystemCase> bare_systems() {
  // As Qwen2: no QK-norm, no bias on the output.
  ModelConfig without_norms = tiny_config();
  without_norms.qk_norm = false;
  without_norms.attention_bias = true;
  without_norms.output_bias = false;
  ModelConfig part_turned = tiny_config();
  part_turned.rope_head_dim = 4;
  ModelConfig talking = tiny_config();
  talking.attention = "talking";
  ModelConfig one_state = with_parts("gta", 0, 0);
  one_state.num_key_value_heads = 1;
  ModelConfig biased = with_parts("gta", 0, 0);
  biased.attention_bias = true;
  ModelConfig biased_value = biased;
  biased_value.attention = "gta_value";
  ModelConfig biased_apart = biased;
  biased_apart.attention = "gta_apart";
  // Values narrower and wider than the plain part of a key; DeepSeek's biases.
  ModelConfig narrow = with_parts("mla", 1, 14), wide = with_parts("gla", 2, 0);
  narrow.value_head_dim = 4;
  narrow.attention_bias = true;
  wide.value_head_dim = 12;
  wide.attention_bias = true;
  return {{"gqa", tiny_config()},
          {"gqa without norms, biases", without_norms},
          {"gqa, a part of each head turned", part_turned},
          {"gta", with_parts("gta", 0, 0)},
          {"gta, one state", one_state},
          {"gta, biases", biased},
          {"gta_value", with_parts("gta_value", 0, 0)},
          {"gta_value, biases", biased_value},
          {"gta_apart", with_parts("gta_apart", 0, 0)},
          {"gta_apart, biases", biased_apart},
          {"talking", talking},
          {"collaborative, as wide as MHA", collaborative(24, false)},
          {"collaborative, half as wide", collaborative(12, false)},
          {"collaborative, odd width, content bias", collaborative(15, true)},
          {"mla", with_parts("mla", 1, 14)},
          {"mla, no query latent", with_parts("mla", 1, 0)},
          {"gla of 2", with_parts("gla", 2, 14)},
          {"gla of 4", with_parts("gla", 4, 0)},
          {"mla, narrow values, biases", narrow},
          {"gla, wide values, biases", wide}};
}

// Every combination of legal kinds on q, k and v.
inline std::vector<SystemCase> legal_systems() {
  std::vector<SystemCase> cases;
  for (const auto& [name, config] : bare_systems()) {
    const auto& system = attention_declaration(config.attention, "");
    for (const KnockKind q : system.place(KnockSlot::q).legal) {
      for (const KnockKind k : system.place(KnockSlot::k).legal) {
        for (const KnockKind v : system.place(KnockSlot::v).legal) {
          ModelConfig with_maps = config;
          with_maps.knocks.all = {q, k, v};
          cases.push_back(
              {name + ": " + to_string(q) + ", " + to_string(k) + ", " + to_string(v), with_maps});
        }
      }
    }
  }
  return cases;
}

}  // namespace kha::test
