#include "train/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kha {
namespace {

Evaluation validate_source(const Session& session, const TokenShard& shard, double share,
                           Progress& progress) {
  EvaluationPlan plan = session.evaluation_plan();
  if (plan.max_tokens > 0) {
    plan.max_tokens =
        std::max<int64_t>(1, std::llround(share * static_cast<double>(plan.max_tokens)));
  }
  return evaluate(session.config.model, session.parameters, session.arithmetic, shard,
                  *session.corpus->tokenizer, plan, [&](int64_t done, int64_t all) {
                    progress.passing(fmt::format("validation {:.0f} %", 100.0 * done / all));
                  });
}

}  // namespace

Evaluation validate_sources(const Session& session, nlohmann::ordered_json& line,
                            Progress& progress) {
  const RunCorpus& corpus = *session.corpus;
  Evaluation all;
  int64_t documents = 0;
  for (size_t i = 0; i < corpus.sources.size(); ++i) {
    const auto& shard = corpus.sources[i].validation;
    if (!shard) continue;
    const Evaluation part = validate_source(session, *shard, corpus.share(i), progress);
    add(all, part, documents);
    documents += shard->documents();
    if (corpus.sources.size() == 1) continue;
    line["val/loss/" + corpus.names[i]] = part.loss();
    progress.line(fmt::format("  {}: validation loss {:.4f}", corpus.names[i], part.loss()));
  }
  return all;
}

}  // namespace kha
