// The decoder: embedding, L layers of attention and feed-forward or experts, final norm, head.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "kha/core/model_config.h"
#include "kha/ops/knock_plan.h"
#include "model/recompute.h"
#include "modules/attention/attention.h"
#include "modules/experts/mixture.h"
#include "modules/feed_forward.h"
#include "modules/kv_cache.h"
#include "modules/parameters.h"

namespace kha {

// A view of the parameters as a function; cheap to make, holds no state of its own. The dtype of
// the arithmetic is that of the parameters given. A record takes what the routers of a pass chose.
class Decoder {
 public:
  Decoder(const ModelConfig& config, const Parameters& parameters, KnockPlan plan,
          int64_t positions, Recompute recompute = Recompute::none,
          std::shared_ptr<RouterRecord> record = nullptr);

  // ids: [B, T] int64 -> hidden states [B, T, d] after the final norm. With a cache the ids stand
  // behind the cached positions and are appended to it; layers that recompute take none. A layout
  // that names padding without positions counts each row's text (text_positions); in a batch with
  // a cache it speaks of the cached positions too. A padding position is seen by nobody, its own
  // attention is zero, and what the cache keeps of it is zero.
  // Errors, each before a number is computed: what does not fit this decoder, its room or the
  // cache; documents with a cache; gradients through a cache.
  at::Tensor hidden(const at::Tensor& ids_BT, KvCache* cache = nullptr,
                    const std::shared_ptr<const PackedLayout>& layout = nullptr) const;
  // hidden [..., d] -> logits [..., vocabulary]
  at::Tensor logits(const at::Tensor& hidden) const;
  // The matrix of the logits, [vocabulary, d]: the embedding itself where the two are tied.
  const at::Tensor& head() const { return head_; }

 private:
  struct Layer {
    int64_t index;
    double eps;
    at::Tensor attention_norm, feed_forward_norm;
    std::unique_ptr<Attention> attention;
    std::optional<FeedForward> dense;
    std::optional<Mixture> mixture;      // one of the two
    std::vector<at::Tensor> parameters;  // all of the layer's, those above too

    at::Tensor operator()(const at::Tensor& x_BTd, const RotaryTable& rotary, KvCache* cache,
                          const PackedLayout* layout) const;
    at::Tensor feed_forward(const at::Tensor& x_BTd) const;
    at::Tensor attend(const at::Tensor& x_BTd, const RotaryTable& rotary, KvCache* cache,
                      const PackedLayout* layout) const;
  };

  at::Tensor embed(const at::Tensor& ids_BT) const;
  // The table for the last position of this pass.
  RotaryTable rotary_of(const at::Tensor& ids_BT, const KvCache* cache,
                        const PackedLayout* layout) const;
  // The layout with the positions that it leaves open; null where there is none.
  std::shared_ptr<const PackedLayout> resolve(const at::Tensor& ids_BT, const KvCache* cache,
                                              std::shared_ptr<const PackedLayout> layout) const;

  Recompute recompute_;
  double eps_;
  ModelConfig config_;
  at::Tensor embedding_, final_norm_, head_;
  RotaryTable rotary_;
  std::vector<std::shared_ptr<const Layer>> layers_;
};

}  // namespace kha
