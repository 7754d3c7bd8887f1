#include "train/pass_metrics.h"

#include "observe/pass_figures.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

void add_attention(const std::vector<AttentionFigures>& layers, Json& line) {
  Json largest, entropy;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (size_t head = 0; head < layers[layer].entropy.size(); ++head) {
      const std::string key = std::to_string(layer) + "." + std::to_string(head);
      largest[key] = layers[layer].largest_logit[head];
      entropy[key] = layers[layer].entropy[head];
    }
  }
  line["attention/largest_logit"] = largest;
  line["attention/entropy"] = entropy;
}

void add_sizes(const HeadSimilarity& heads, Json& line) {
  Json sizes;
  for (const auto& slot : heads.slots) {
    const std::string key = std::to_string(slot.layer) + "." + to_string(slot.slot);
    if (slot.before) sizes[key + ".before"] = slot.before->size;
    sizes[key + ".after"] = slot.after.size;
  }
  if (!sizes.empty()) line["heads/size"] = sizes;
}

void add_routers(const std::vector<RouterFigures>& routers, bool biased, Json& line) {
  for (const RouterFigures& f : routers) {
    const std::string layer = std::to_string(f.layer);
    line["router/logit_size"][layer] = f.logit_size;
    line["router/score_entropy"][layer] = f.score_entropy;
    line["router/weight_sum"][layer] = f.weight_sum_mean;
    line["router/weight_sum_low"][layer] = f.weight_sum_low;
    if (!biased) continue;
    line["router/bias_least"][layer] = f.bias_least;
    line["router/bias_mean"][layer] = f.bias_mean;
    line["router/bias_most"][layer] = f.bias_most;
  }
}

}  // namespace

void add_pass_metrics(const Session& session, const Batch& watched, const HeadSimilarity& heads,
                      Json& line) {
  const MetricsOptions& asked = session.config.metrics;
  const ModelConfig& model = session.config.model;
  const bool experts = asked.experts && model.experts.any();
  if (!asked.attention && !experts) return;
  const PassFigures figures = pass_figures(model, session.parameters, watched);
  if (asked.attention) {
    add_attention(figures.attention, line);
    add_sizes(heads, line);
  }
  if (experts) add_routers(figures.routers, model.experts.selection_bias(), line);
}

}  // namespace kha
