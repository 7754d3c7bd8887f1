// Text from a model, one token after the other.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kha/core/kv_cache_kind.h"
#include "kha/ops/knock_plan.h"
#include "model/generate/sampler.h"
#include "model/model_io.h"

namespace kha {

enum class EndReason {
  end_mark,      // the model wrote its end mark
  stop_text,     // a stop text was complete
  length,        // max_new_tokens tokens were written
  context_full,  // prompt and text fill max_position_embeddings
};

std::string to_string(EndReason reason);  // the enumerator's name
std::string in_words(EndReason reason);   // for people: "the context is full"

struct GenerateOptions {
  std::int64_t max_new_tokens = 200;
  SamplingOptions sampling = {};
  std::vector<std::string> stops = {};
  bool use_cache = true;  // false: every token is computed from the whole text before it
  KvCacheKind kv_cache = KvCacheKind::model;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  // Weight space would form M W again for every token.
  KnockPlan plan = KnockPlan::activation_space;
};

// The cache that a text was written with.
struct CacheUse {
  std::int64_t bytes_per_token = 0;  // of all layers, scales included
  std::int64_t positions = 0;        // that it has room for, of all texts
  std::int64_t bytes = 0;            // of that room
};

struct GenerateResult {
  std::vector<std::int64_t> ids;  // every new token, the end mark too
  std::string text;               // their bytes, cut at the stop text
  EndReason reason = EndReason::length;
  std::optional<std::string> stop = {};  // the stop text that ended it
  std::optional<CacheUse> cache = {};    // none without a cache
};

// Continues `prompt`; an empty one starts from the end mark, which stands before every document in
// training. Only ids of the model's tokenizer are ever chosen, also where the vocabulary is padded
// or has ids between others without a token. `on_text` gets the text as it comes, in whole
// characters; its pieces joined are result.text. Errors: invalid options, an empty stop text, a
// prompt id outside the vocabulary, a prompt longer than the context, logits that are not finite.
GenerateResult generate(const LoadedModel& model, std::vector<std::int64_t> prompt,
                        const GenerateOptions& options,
                        const std::function<void(const std::string&)>& on_text = {});

}  // namespace kha
