// The step in bf16, in bytes: counted from the operators' compositions in src/ops, as torch runs
// them. Weights, moments and the gradients of the optimiser are float32. Each micro-batch makes
// copies of the weights in bf16, which a layer lets go on the way back where it gets gradients in
// bf16; those become float32 at the very end, the embedding's last.
#include <algorithm>

#include "core/plan/model_memory.h"
#include "kha/kernels/head_loss_chunk.h"

namespace kha {
namespace {

constexpr double half = 2, single = 4;

// A norm's backward pass in float32 beside its input and gradients: the input, the quotient in
// bf16, and of the gradient four tensors where its two terms are subtracted.
constexpr double norm_bytes = single + half + 4 * single;
// One that rotates has a gradient in bf16 from before the rotation as well.
constexpr double rotated_norm_bytes = half + norm_bytes;

struct Layer {
  PartMemory attention, feed_forward;
  LayerParameters all, trained;
  bool queries;  // whether their norm has a backward pass
  bool mixture;
};

class Bf16Step {
 public:
  Bf16Step(const ModelConfig& c, const BatchShape& batch, const Training& training)
      : c_(c),
        batch_(batch),
        training_(training),
        all_(parameters_of(c)),
        trained_(parameters_of(c, training)),
        tokens_(static_cast<double>(batch.tokens())),
        model_(half * static_cast<double>(c.hidden_size)) {
    const std::vector<LayerReach> reaches = gradient_reach(c, training);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const auto at = static_cast<size_t>(i);
      const LayerReach& reach = reaches[at];
      layers_.push_back({attention_memory(c, i, batch, trained_.layers[at], reach),
                         feed_forward_memory(c, i, trained_.layers[at], reach), all_.layers[at],
                         trained_.layers[at], reach.slot(KnockSlot::q), c.experts.in_layer(i)});
      pass_through(layers_.back());
      kept_ += kept_of(layers_.back());
      copies_ += half * layers_.back().all.all();
    }
  }

  StepMemory result() {
    at_the_loss();
    go_back();
    at_the_end();
    const double all = all_.all(), trained = trained_.all();
    return {.weights = single * all,
            .copies = half * all,
            .moments = 2 * single * trained,
            .gradients = single * trained,
            .kept = kept_ * tokens_,
            .peak = single * (all + 2 * trained) + worst_};
  }

 private:
  double wide(int64_t heads, int64_t width) const {
    return half * static_cast<double>(heads * width);
  }
  double queries() const { return wide(c_.num_attention_heads, c_.head_dim); }

  // Of a token. The fused kernel's number a head is float32.
  double attention_kept(const Layer& layer) const {
    const double kept = half * layer.attention.kept;
    return kept > 0 ? kept + (single - half) * static_cast<double>(c_.num_attention_heads) : 0;
  }
  // Logits and weights of the router are float32, and so is what its product keeps; the numbers of
  // experts and places have eight bytes as in float32.
  double feed_forward_kept(const Layer& layer) const {
    const double kept = half * layer.feed_forward.kept;
    if (kept == 0 || !layer.mixture) return kept;
    const auto routing = static_cast<double>(c_.experts.count + 7 * c_.experts.active);
    const double rows = training_.trains(Role::matrix) ? single / half * model_ : 0;
    return kept + (single - half) * routing + rows;
  }
  double kept_of(const Layer& layer) const {
    const double kept = attention_kept(layer) + feed_forward_kept(layer);
    return batch_.recompute && kept > 0 ? model_ : kept;
  }

  // The head's copy, and its gradient, which the loss made and holds to the end.
  double head() const { return half * (all_.head + trained_.head); }
  // Of a token: the last norm's output and its gradient; ids, targets, losses and scales.
  double around() const { return 2 * model_ + 24; }

  void note(double weights, double elements) {
    const double sum = batch_.accumulate > 1 ? single * trained_.all() : 0;
    worst_ = std::max(worst_, sum + weights + elements * tokens_);
  }

  // Where nothing is kept, beside the copies of all weights; the gate has its other factor as well.
  void pass_through(const Layer& layer) {
    const double elements = layer.feed_forward.passing;
    const int64_t width = layer.mixture ? c_.experts.width : c_.intermediate_size;
    if (elements > 0)
      note(half * all_.all(), kept_ + half * (elements + static_cast<double>(width)));
  }

  // A chunk of logits is there in float32 twice at its softmax, then its gradient in bf16 beside
  // that of the head, which is summed in float32 and has a summand, in the end a result, in bf16.
  void at_the_loss() {
    const int64_t rows = std::min(
        head_loss_chunk_rows(batch_.tokens(), c_.vocab_size, c_.hidden_size), batch_.tokens());
    const auto chunk = static_cast<double>(rows * c_.vocab_size);
    const double sum = rows < batch_.tokens() ? single * trained_.head : 0;
    const double most =
        std::max(2 * single * chunk + sum, half * chunk + (half + single) * trained_.head);
    note(copies_ + half * all_.head + most, kept_ + around() + model_);
    note(copies_ + head(), kept_ + around() + model_ + norm_bytes / half * model_);
  }

  void go_back() {
    double below = kept_, copies = copies_, gradients = 0;
    for (size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      below -= batch_.recompute ? 0 : kept_of(layer);
      copies -= half * layer.all.all();
      feed_forward(layer, head() + copies + gradients, below + around());
      gradients += half * layer.trained.feed_forward;
      attention(layer, head() + copies + gradients, below + around());
      gradients += half * layer.trained.attention;
      below -= batch_.recompute ? kept_of(layer) : 0;
    }
  }

  void feed_forward(const Layer& layer, double weights, double beside) {
    const double kept = feed_forward_kept(layer);
    if (kept == 0) return;
    const double before = beside + attention_kept(layer);
    if (layer.mixture) {
      experts(layer, weights, before + kept);
    } else {
      dense(layer, c_.intermediate_size, weights, before + kept);
    }
    // The norm.
    note(weights + half * (layer.all.attention + layer.trained.feed_forward),
         before + 3 * model_ + norm_bytes / half * model_);
  }

  // In the gate: the product's gradient, those of gate and up, and the gate's other factor. Behind
  // it two products of the norm's output.
  void dense(const Layer& layer, int64_t channels, double weights, double kept) {
    const double width = half * static_cast<double>(channels), own = half * layer.all.all();
    const double made = layer.mixture ? layer.trained.shared : layer.trained.feed_forward;
    note(weights + own + half * layer.trained.down, kept + 4 * width + model_);
    note(weights + own + half * (made - layer.all.down), kept + 3 * model_);
  }

  // Shared experts come first on the way back. Beside a sum in float32 and the gradient there are
  // in the gate of an expert six tensors of its width and a row of the model's, or behind it four
  // of them, two rows and one in float32.
  void experts(const Layer& layer, double weights, double kept) {
    const ExpertConfig& e = c_.experts;
    const double width = half * static_cast<double>(e.width),
                 routing = (half + single) * static_cast<double>(e.active);
    if (e.shared > 0) dense(layer, e.shared * e.width, weights, kept);
    kept -= 2 * static_cast<double>(e.shared) * width;  // gate and up of the shared ones
    const double rows = std::max(6 * width + model_, 4 * (width + model_));
    note(weights + half * (layer.all.all() + layer.trained.shared + layer.trained.experts),
         kept + (e.shared > 0 ? 4 : 3) * model_ + routing + rows);
  }

  // In the fused kernel; in the norm of the queries, whose gradient comes last, beside the layer's
  // input, its norm and the gradients of both; in the norm of the layer.
  void attention(const Layer& layer, double weights, double beside) {
    const double kept = attention_kept(layer), q = queries();
    if (kept == 0) return;
    const double keys = wide(c_.num_key_value_heads, c_.head_dim);
    const double own = half * layer.all.attention, made = half * layer.trained.attention;
    note(weights + own + half * layer.trained.output, beside + kept + model_ + 2 * q + 2 * keys);
    if (!layer.queries) return;
    const double rows = 4 * model_ + (2 + rotated_norm_bytes / half) * q;
    note(weights + std::max(own, made), beside + rows);
    note(weights + made, beside + (3 + norm_bytes / half) * model_);
  }

  // All gradients are float32 but the embedding's, of which both are there.
  void at_the_end() {
    const auto embedding =
        training_.trains(Role::embedding) ? static_cast<double>(c_.vocab_size * c_.hidden_size) : 0;
    const double layers = trained_.all() - trained_.outside;
    if (batch_.accumulate == 1) {
      note(head() + single * trained_.all() + half * embedding, around());
    } else {
      note(head() + half * (layers + embedding), around());
      note(head() + (half + single) * embedding, around());
    }
  }

  const ModelConfig& c_;
  const BatchShape& batch_;
  const Training& training_;
  ModelParameters all_, trained_;
  double tokens_, model_;  // bytes of the model's width in bf16
  std::vector<Layer> layers_;
  double kept_ = 0;    // bytes a token
  double copies_ = 0;  // of the layers' weights
  double worst_ = 0;
};

// What the compositions above are of: grouped queries with norms that rotate, dense
// feed-forwards or mixtures.
bool is_counted(const ModelConfig& c) {
  return c.attention == "gqa" && c.qk_norm && c.rope_head_dim == 0 &&
         c.rotary_layout != "interleaved";
}

}  // namespace

std::optional<StepMemory> predict_bf16_step_memory(const ModelConfig& config,
                                                   const BatchShape& batch,
                                                   const Training& training) {
  if (!is_counted(config)) return std::nullopt;
  return Bf16Step(config, batch, training).result();
}

}  // namespace kha
