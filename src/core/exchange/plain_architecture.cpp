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

// The rotary layout does not count: rows can be reordered.
PlainArchitecture grouped_query(ModelConfig c, const std::string& where) {
  c.rotary_layout = "half_split";
  if (c.plain()) return {c.base_type(), class_of(c.base_type())};
  fail_none(where,
            c.experts.any() ? "no class has this router with these experts, norms and biases"
                            : "QK-norm with biases on q, k and v but not on o is in no dense class",
            c.experts.any() && c.experts.shared == 0
                ? "a sigmoid router is exported with shared experts (model.experts.shared) so far; "
                  "use this model with kha: kha generate, kha eval"
                : "use the model with kha: kha generate, kha eval");
}

}  // namespace

PlainArchitecture plain_architecture(const ModelConfig& c, const std::string& where) {
  refuse_maps(c, where);
  if (c.attention == "gqa") return grouped_query(c, where);
  if (c.attention == "mla" && !c.experts.any()) return {"deepseek_v3", "DeepseekV3ForCausalLM"};
  if (c.attention == "mla") {
    fail_none(where, "latent attention with experts is not exported yet",
              "use the model with kha: kha generate, kha eval");
  }
  fail_none(where,
            "attention `" + c.attention + "` (" +
                attention_declaration(c.attention, where).meaning +
                ") is in no public architecture",
            "use the model with kha: kha generate, kha eval");
}

}  // namespace kha
