// Balancing without a loss: the selection bias of each expert follows its load (arXiv 2408.15664).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kha/core/run_config.h"
#include "modules/parameters.h"
#include "train/router_step.h"

namespace kha {

// What the biases of one layer move by after a step whose load was `counts`, F_i = c_i / sum(c),
// Q = 1 / n, u the rate:
//   rms           -u (F - Q) / sqrt(mean((F - Q)^2)): as long as `sign`, and experts near balance
//                 move less
//   sign          -u sign(F - Q), less its mean: a common shift chooses no other expert
//   proportional  -u (F - Q) / Q
//   none          nothing
// Nothing where the load is even or there is none.
std::vector<double> bias_step(const std::string& rule, double rate,
                              const std::vector<int64_t>& counts);

// Moves the biases of a model with sigmoid routers; after the optimiser's step, so that no token
// of this step sees them.
void balance_experts(const ModelConfig& config, const ExpertOptions& options,
                     const ExpertCounts& counts, const Parameters& parameters);

// How even the load of a step was, over layers: shares of the mean load.
struct LoadFigures {
  double largest = 0, smallest = 0;         // of any expert of any layer, in mean loads
  double dead = 0;                          // the share of experts that no token chose
  double max_violation = 0;                 // max_i c_i / mean(c) - 1, the mean over layers
  double evenness = 1;                      // entropy of the load over ln E, the mean over layers
  std::map<int64_t, double> of_layer = {};  // max_violation of each layer with experts
};
LoadFigures load_figures(const ExpertCounts& counts);

}  // namespace kha
