// The heads' similarity in metrics.jsonl, and whole in RUN/heads.json.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "observe/head_similarity.h"
#include "train/session.h"

namespace kha {

// The text that the heads are watched on, the same at every step of a run: at most 512 tokens,
// spread over the held-out split (or the training text where nothing is held out).
Batch watched_batch(const Session& session);

// Adds "heads/similarity", an object of "LAYER.SLOT.after" -> mean |cosine|, and
// "LAYER.SLOT.before" where the slot has a map; nothing of slots with a single head.
void add_head_metrics(const HeadSimilarity& heads, nlohmann::ordered_json& line);

// RUN/heads.json: step, tokens, positions and each slot's matrices of mean cosines.
void write_heads(const std::filesystem::path& run_folder, const TrainingState& state,
                 const HeadSimilarity& heads);

}  // namespace kha
