// What the attention and the routers of a model do on a fixed stretch of text, in figures.
#pragma once

#include <cstdint>
#include <vector>

#include "kha/core/batch.h"
#include "kha/core/model_config.h"
#include "modules/parameters.h"

namespace kha {

// One layer's heads, over the positions that are no padding.
struct AttentionFigures {
  std::vector<double> largest_logit;  // before the softmax, of what a query sees
  std::vector<double> entropy;        // of the weights in nats, the mean over queries
};

// One layer's router, over the same positions.
struct RouterFigures {
  int64_t layer = 0;
  double logit_size = 0;     // root mean square of the logits
  double score_entropy = 0;  // of a token's scores as shares of their sum, over ln E: 1 is even
  // Sum of a token's chosen scores before they are normalised: the mean and the first percentile.
  double weight_sum_mean = 0, weight_sum_low = 0;
  double bias_least = 0, bias_mean = 0, bias_most = 0;  // of selection; 0 where there is none
};

struct PassFigures {
  std::vector<AttentionFigures> attention;  // layer by layer
  std::vector<RouterFigures> routers;       // of the layers with experts
};

// Runs the model once over the batch, without a gradient and in the parameters' dtype; figures are
// computed in double. Changes nothing, draws no random number.
PassFigures pass_figures(const ModelConfig& config, const Parameters& parameters,
                         const Batch& batch);

// Of shares that sum to one: entropy over ln n, 1 where they are even; 1 for a single share.
double evenness(const std::vector<double>& shares);

}  // namespace kha
