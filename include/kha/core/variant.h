// Variants of a comparison: attention systems or sizes beside each other, each with its settings.
//
//   [compare]
//   settings = ["baseline", "kha-mlp"]
//   [compare.variants]
//   gqa = []                              # the [model] table as it is
//   mqa = ["model.num_key_value_heads=1"]
//   mla = ["model.attention=mla", ..., 'compare.settings=["baseline", "kha-linear"]']
//
// A variant changes the model or its optimiser, never data, batch or seed: all arms see the same
// text in the same order. Its own compare.settings replace the comparison's.
#pragma once

#include <string>
#include <vector>

#include "kha/core/run_config.h"

namespace kha {

// A setting of the comparison whose maps may not stand in the variant's attention.
struct LeftOut {
  std::string setting;
  std::string reason;  // which map, where, why, and what is legal there
};

struct Variant {
  std::string name;                   // empty: a comparison without variants
  RunConfig config;                   // the comparison's with the variant's settings on top
  std::vector<std::string> settings;  // that are trained; the first is the reference of the others
  std::vector<LeftOut> left_out;
};

// By attention system, the largest cache of a token first; one without a name where the comparison
// has none.
//
// Errors: a key that no variant may change, a value that does not fit, a model that does not fit, a
// variant whose reference is another than the comparison's or is not legal in it; without variants,
// a setting that is not legal.
std::vector<Variant> variants_of(const RunConfig& config);

}  // namespace kha
