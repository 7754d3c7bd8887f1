// Figures of attention and routers in a line of metrics.jsonl: `metrics.attention`,
// `metrics.experts`.
#pragma once

#include <nlohmann/json.hpp>

#include "kha/core/batch.h"
#include "observe/head_similarity.h"
#include "train/session.h"

namespace kha {

// As the options ask, over the watched text: by layer and head attention/largest_logit and
// attention/entropy, by layer and slot heads/size; by layer router/logit_size,
// router/score_entropy, router/weight_sum, router/weight_sum_low and router/bias_*.
void add_pass_metrics(const Session& session, const Batch& watched, const HeadSimilarity& heads,
                      nlohmann::ordered_json& line);

}  // namespace kha
