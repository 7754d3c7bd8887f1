// An attention system answers three questions; a new system is a new file beside gqa.cpp and a new
// declaration in core (kha/core/attention_system.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kha/core/model_config.h"
#include "kha/ops/knock_plan.h"
#include "modules/packed_layout.h"
#include "modules/parameters.h"
#include "modules/rotary.h"

namespace kha {

// What the cache holds for a stretch of positions: one tensor [B, T, heads, width] for each that
// the system declares (AttentionDeclaration::cache), in that order. A decode step maps the new
// position only.
using CacheEntry = std::vector<at::Tensor>;

struct Projected {
  at::Tensor queries_BTHD;
  CacheEntry entry;
};

class Attention {
 public:
  virtual ~Attention() = default;

  // 1. x [B, T, d] at positions first .. first + T - 1, or where the table is placed: queries, and
  //    what is cached of them.
  virtual Projected project(const at::Tensor& x_BTd, const RotaryTable& rotary,
                            int64_t first) const = 0;
  // 2. Queries of the last T of the cache's S positions -> head outputs [B, T, H, D]. Causal by
  //    absolute position: query i sees key j when j <= i + (S - T). With a layout (then S = T) it
  //    sees those of its own document alone.
  virtual at::Tensor attend(const at::Tensor& queries_BTHD, const CacheEntry& cache,
                            const PackedLayout* layout) const = 0;
  // 3. Head outputs -> [B, T, d].
  virtual at::Tensor aggregate(const at::Tensor& heads_BTHD) const = 0;
};

// How a system whose keys and values are products of what it caches decodes; others have one form.
enum class DecodeForm {
  fewest_operations,  // of the two below, by a count
  absorbed,           // on what is cached
  formed,             // keys and values of every cached position, anew in each step
};

// The system that the configuration names, over one layer's parameters. Fails for a form by name of
// a system that has one form.
std::unique_ptr<Attention> make_attention(const ModelConfig& config, const Parameters& parameters,
                                          int64_t layer, KnockPlan plan,
                                          DecodeForm form = DecodeForm::fewest_operations);

// o_proj of the heads side by side: [B, T, H, D] -> [B, T, d]. `bias` may be undefined.
at::Tensor output_projection(const at::Tensor& heads_BTHD, const at::Tensor& weight,
                             const at::Tensor& bias);

// One file a system.
std::unique_ptr<Attention> make_gqa(const ModelConfig& config, const Parameters& parameters,
                                    int64_t layer, KnockPlan plan);
std::unique_ptr<Attention> make_gta(const ModelConfig& config, const Parameters& parameters,
                                    int64_t layer, KnockPlan plan);
std::unique_ptr<Attention> make_talking(const ModelConfig& config, const Parameters& parameters,
                                        int64_t layer, KnockPlan plan);
std::unique_ptr<Attention> make_collaborative(const ModelConfig& config,
                                              const Parameters& parameters, int64_t layer,
                                              KnockPlan plan);
std::unique_ptr<Attention> make_latent(const ModelConfig& config, const Parameters& parameters,
                                       int64_t layer, KnockPlan plan, DecodeForm form);

}  // namespace kha
