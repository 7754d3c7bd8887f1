// The loss of a model on a token shard.
#pragma once

#include <cstdint>
#include <functional>

#include "kha/core/batch.h"
#include "kha/core/kv_cache_kind.h"
#include "kha/core/paired_difference.h"
#include "kha/core/token_shard.h"
#include "kha/core/tokenizer.h"
#include "train/gradient.h"

namespace kha {

struct Evaluation {
  double nats = 0;  // summed over the counted targets
  int64_t targets = 0;
  int64_t bytes = 0;  // of text that these targets spell
  DocumentLosses documents = {};
  ExpertCounts loads = {};  // of a model with experts, over all windows

  double loss() const { return nats / static_cast<double>(targets); }
  double perplexity() const;
  // Bits a byte of text: comparable between tokenizers. The end marks' cost is in it; they spell no
  // byte.
  double bits_per_byte() const;
};

struct EvaluationPlan {
  int64_t context = 256;   // tokens a window; windows do not overlap
  int64_t rows = 8;        // windows at once
  int64_t max_tokens = 0;  // 0: the whole shard
  BoundaryTargets boundary = BoundaryTargets::counted;
  Packing packing = {};
};

// How a text is decoded through a KV cache: `stretch` tokens at once, each window from an empty
// one.
struct CachePlan {
  KvCacheKind kind = KvCacheKind::model;
  int64_t stretch = 64;
};

// Adds the figures of another shard, whose documents are counted from `first_document` on.
void add(Evaluation& sum, const Evaluation& part, int64_t first_document);

// No gradient, no change of the parameters. `progress` gets windows done and their number.
Evaluation evaluate(const ModelConfig& config, const Parameters& parameters,
                    const Arithmetic& arithmetic, const TokenShard& shard,
                    const Tokenizer& tokenizer, const EvaluationPlan& plan,
                    const std::function<void(int64_t, int64_t)>& progress = {});

// The same windows decoded through a cache, as generation reads it. Windows are one text each: a
// plan with packing is an Error.
Evaluation evaluate_through_cache(const ModelConfig& config, const Parameters& parameters,
                                  const Arithmetic& arithmetic, const TokenShard& shard,
                                  const Tokenizer& tokenizer, const EvaluationPlan& plan,
                                  const CachePlan& cache,
                                  const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace kha
