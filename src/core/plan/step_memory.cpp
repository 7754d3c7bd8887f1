#include <algorithm>
#include <vector>

#include "core/plan/model_memory.h"
#include "kha/kernels/head_loss_chunk.h"

namespace kha {
namespace {

constexpr double bytes = 4;  // float32

struct Layer {
  PartMemory attention, feed_forward;
  double kept() const { return attention.kept + feed_forward.kept; }
};

// The step of one model and batch; elements are numbers of a token, parameters are counted whole.
class Step {
 public:
  Step(const ModelConfig& config, const BatchShape& batch, const Training& training)
      : batch_(batch),
        parameters_(parameters_of(config, training)),
        tokens_(static_cast<double>(batch.tokens())),
        model_(static_cast<double>(config.hidden_size)),
        tied_(config.tie_word_embeddings),
        chunk_(head_chunk(config, batch)) {
    const std::vector<LayerReach> reaches = gradient_reach(config, training);
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const LayerParameters& p = parameters_.layers[static_cast<size_t>(i)];
      const LayerReach& reach = reaches[static_cast<size_t>(i)];
      layers_.push_back(
          {attention_memory(config, i, batch, p, reach), feed_forward_memory(config, i, p, reach)});
      note(0, 0, kept_ + layers_.back().feed_forward.passing, 0);
      kept_ += kept_of(layers_.back());
      formed_ += batch.recompute ? 0 : layers_.back().attention.formed;
    }
  }

  StepMemory result() {
    note(parameters_.head, 0, kept_ + around() + chunk_ / tokens_, formed_);
    go_back();
    const double all = parameters_.all();
    // At the embedding: its gradient is made whole, beside that of the head where they are one.
    note(all + (tied_ ? parameters_.head : 0), parameters_.head, around(), 0);
    const double weights = all + parameters_.frozen;
    return {.weights = bytes * weights,
            .moments = 2 * bytes * all,
            .gradients = bytes * all,
            .kept = bytes * kept_ * tokens_,
            .peak = bytes * (weights + 2 * all + worst_)};
  }

 private:
  static double head_chunk(const ModelConfig& c, const BatchShape& batch) {
    const auto rows = std::min<int64_t>(
        head_loss_chunk_rows(batch.tokens(), c.vocab_size, c.hidden_size), batch.tokens());
    return static_cast<double>(rows * c.vocab_size);
  }

  // A layer that runs again keeps its input, unless nothing in it or below it is trained.
  double kept_of(const Layer& layer) const {
    if (!batch_.recompute) return layer.kept();
    return layer.kept() > 0 ? model_ : 0;
  }

  // The final norm's input and output, the gradient of one; ids, targets, losses and scales.
  double around() const { return 3 * model_ + 6; }

  // `gradients`: those of the micro-batch that are there; `fresh` of them newly made.
  void note(double gradients, double fresh, double elements, double formed) {
    const double there =
        batch_.accumulate > 1 ? parameters_.all() + parameters_.head + fresh : gradients;
    worst_ = std::max(worst_, there + elements * tokens_ + formed);
  }

  void go_back() {
    double gradients = parameters_.head, below = kept_, formed = formed_;
    for (size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      below -= batch_.recompute ? 0 : kept_of(layer);
      // The last hidden state's gradient has become that of the layer, which is in its moments.
      const double beside = below + around() - model_;
      const double own = batch_.recompute ? layer.attention.formed : 0;
      for (const Moment& m : layer.feed_forward.moments) {
        note(gradients + m.gradients, m.fresh, beside + layer.attention.kept + m.elements,
             formed + own + m.formed);
      }
      gradients += layer.feed_forward.parameters;
      for (const Moment& m : layer.attention.moments)
        note(gradients + m.gradients, m.fresh, beside + m.elements, formed + own + m.formed);
      gradients += layer.attention.parameters;
      formed -= batch_.recompute ? 0 : layer.attention.formed;
      if (batch_.recompute) below -= kept_of(layer);
    }
  }

  BatchShape batch_;
  ModelParameters parameters_;
  double tokens_, model_;
  bool tied_;
  double chunk_;
  std::vector<Layer> layers_;
  double kept_ = 0, formed_ = 0;
  double worst_ = 0;
};

}  // namespace

StepMemory predict_step_memory(const ModelConfig& config, const BatchShape& batch,
                               const Training& training) {
  return Step(config, batch, training).result();
}

}  // namespace kha
