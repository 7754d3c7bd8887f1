// The main job: the same model with and without maps, same data, order and seed, side by side; over
// one model, or over several variants of its attention.
#pragma once

#include <string>
#include <vector>

#include "kha/core/paired_difference.h"
#include "kha/core/variant.h"
#include "train/trainer.h"

namespace kha {

struct Arm {
  std::string variant;  // empty: a comparison without variants
  std::string setting;
  int64_t seed = 0;
  std::filesystem::path run;  // of the arm, an ordinary run
  int64_t parameters = 0, knock_parameters = 0;
  double flops = 0, knock_flops = 0;  // a token, forward
  RunSummary summary;
};

struct ArmDifference {
  std::string variant;
  std::string setting;
  Interval interval;   // validation loss of the setting minus the reference's of the same variant
  std::string covers;  // "seeds" or "documents"
};

// What the arms of one variant share.
struct VariantModel {
  std::string name;  // empty: the comparison has no variants
  ModelConfig model;
  std::string shared_start;  // hash of the weights that its arms of the first seed share
  std::vector<LeftOut> left_out;
};

struct Comparison {
  std::filesystem::path folder;
  std::string reference;
  std::vector<VariantModel> variants;
  std::vector<Arm> arms;  // empty when a signal ended it
  std::vector<ArmDifference> differences;

  bool has_variants() const { return !variants.empty() && !variants.front().name.empty(); }
};

// Trains every setting of every variant with every seed, one after the other, continuing what is
// there. Needs a held-out split. A signal saves the arm and ends it with `arms` empty.
Comparison compare(const RunConfig& config);

// The variants with their settings, and what is left out and why: a line each. Nothing for a
// comparison without variants.
std::vector<std::string> describe_variants(const RunConfig& config);

// RUN/planned.json: the arms of a comparison over variants, for who looks before it has ended.
// Nothing without variants.
void write_planned_arms(const std::filesystem::path& folder, const std::vector<Variant>& variants);

// RUN/compare.json
void write_comparison(const Comparison& comparison);

// The tables and what they mean in words, claiming no more than the intervals allow.
std::string to_text(const Comparison& comparison);

}  // namespace kha
