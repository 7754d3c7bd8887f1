// The main job: the same model with and without maps, same data, order and seed, side by side.
#pragma once

#include <string>
#include <vector>

#include "kha/core/paired_difference.h"
#include "train/trainer.h"

namespace kha {

struct Arm {
  std::string setting;
  int64_t seed = 0;
  std::filesystem::path run;  // of the arm, an ordinary run
  int64_t parameters = 0, knock_parameters = 0;
  double flops = 0, knock_flops = 0;  // a token, forward
  RunSummary summary;
};

struct ArmDifference {
  std::string setting;
  Interval interval;   // validation loss of the setting minus the reference's, nats a token
  std::string covers;  // "seeds" or "documents"
};

struct Comparison {
  std::filesystem::path folder;
  std::string reference;
  std::string shared_start;  // hash of the weights that all arms of the first seed share
  std::vector<Arm> arms;     // empty when a signal ended it
  std::vector<ArmDifference> differences;
};

// Trains every setting with every seed, one after the other, continuing what is there. Needs a
// held-out split. A signal saves the arm and ends it with `arms` empty.
Comparison compare(const RunConfig& config);

// RUN/compare.json
void write_comparison(const Comparison& comparison);

// The table and what it means in words, claiming no more than the intervals allow.
std::string to_text(const Comparison& comparison);

}  // namespace kha
