// The arms of a comparison: what each one trains, and their training one after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/compare.h"

namespace kha {

// The run of one arm, in arms/SETTING-sSEED of the comparison's folder; with variants in
// arms/VARIANT/SETTING-sSEED.
RunConfig arm_config(const Variant& variant, const Tokenizer& tokenizer, const std::string& setting,
                     int64_t seed);

// Trains every arm, seed by seed, and adds what came of it to `arms`. Returns whether all were
// trained: false after a signal.
bool train_arms(const std::vector<Variant>& variants, std::shared_ptr<const RunCorpus> corpus,
                Progress& progress, std::vector<Arm>& arms);

}  // namespace kha
