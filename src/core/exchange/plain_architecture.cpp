#include "kha/core/plain_architecture.h"

#include "core/description/family_keys.h"
#include "kha/core/attention_system.h"
#include "kha/core/error.h"

namespace kha {
namespace {

[[noreturn]] void fail_none(const std::string& where, const std::string& reason,
                            const std::string& next) {
  fail({.what = "no plain architecture computes this model",
        .where = where,
        .cause = reason,
        .next = next});
}

void refuse_maps(const ModelConfig& c, const std::string& where) {
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    for (const KnockSlot slot : knock_slots) {
      const KnockKind kind = c.knocks.at(layer).at(slot);
      if (kind == KnockKind::none) continue;
      fail_none(where,
                "the " + to_string(kind) + " map on " + to_string(slot) + " of layer " +
                    std::to_string(layer) + " does not fold away: it depends on its input",
                "use the model with kha; a model with linear maps alone can be exported");
    }
  }
}

constexpr const char* with_kha = "use the model with kha: kha generate, kha eval";

// Classes whose mixture always has a shared expert.
bool builds_shared_expert(const ModelConfig& c) {
  return c.experts.any() && (c.experts.router == "sigmoid" || c.attention == "mla");
}

std::string router_reason(const ModelConfig& c) {
  if (c.experts.router != "softmax") return "no class has this router with these norms and biases";
  return "the class of a softmax router, Qwen3Moe, has no shared experts, no groups, no scaling of "
         "the weights and no heads without norms";
}

std::string reason_of_heads(const ModelConfig& c) {
  if (c.rope_head_dim > 0 && c.base_type() != "glm4_moe") {
    return "heads of which only a part of the channels is turned (rope_head_dim) are in no class "
           "but Glm4Moe, which has a sigmoid router";
  }
  if (c.experts.any()) return router_reason(c);
  return "QK-norm with biases on q, k and v but not on o is in no dense class";
}

// The rotary layout does not count: rows can be reordered.
PlainArchitecture grouped_query(const ModelConfig& config, const std::string& where) {
  ModelConfig c = as_architecture(config);
  c.rotary_layout = "half_split";
  if (c.plain()) return {c.base_type(), class_of(c.base_type())};
  fail_none(where, reason_of_heads(c), with_kha);
}

// V2's class leaves a normalisation of the weights out, and wants a width that heads divide.
PlainArchitecture latent(const ModelConfig& c, const std::string& where) {
  if (!c.experts.any() || c.experts.router == "sigmoid") {
    return {"deepseek_v3", class_of("deepseek_v3")};
  }
  if (c.experts.normalise) {
    fail_none(where,
              "latent attention with a softmax router whose weights are normalised is in no class: "
              "DeepseekV2 never normalises, DeepseekV3 has a sigmoid router",
              with_kha);
  }
  if (c.hidden_size % c.num_attention_heads != 0) {
    fail_none(where,
              "DeepseekV2, the class of a softmax router, wants a hidden_size that "
              "num_attention_heads divides",
              with_kha);
  }
  return {"deepseek_v2", class_of("deepseek_v2")};
}

}  // namespace

ModelConfig as_architecture(ModelConfig c) {
  if (builds_shared_expert(c) && c.experts.shared == 0) c.experts.shared = 1;
  if (c.attention == "mla" || (c.experts.any() && c.experts.router == "sigmoid")) {
    c.tie_word_embeddings = false;
  }
  return c;
}

PlainArchitecture plain_architecture(const ModelConfig& c, const std::string& where) {
  refuse_maps(c, where);
  if (c.attention == "gqa") return grouped_query(c, where);
  if (c.attention == "mla") return latent(c, where);
  fail_none(where,
            "attention `" + c.attention + "` (" +
                attention_declaration(c.attention, where).meaning +
                ") is in no public architecture",
            with_kha);
}

}  // namespace kha
