#include "train/head_metrics.h"

#include <algorithm>

#include "kha/core/atomic_file.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t watched_tokens = 512;
constexpr int64_t watched_context = 256;

Json to_json(const HeadCosines& cosines) {
  Json rows = Json::array();
  for (int64_t row = 0; row < cosines.heads; ++row) {
    const auto first = cosines.mean.begin() + row * cosines.heads;
    rows.push_back(std::vector<double>(first, first + cosines.heads));
  }
  return {{"similarity", cosines.similarity}, {"mean", rows}};
}

Json to_json(const SlotSimilarity& slot) {
  Json json{{"layer", slot.layer}, {"slot", to_string(slot.slot)}, {"heads", slot.after.heads}};
  if (slot.before) json["before"] = to_json(*slot.before);
  json["after"] = to_json(slot.after);
  return json;
}

}  // namespace

Batch watched_batch(const Session& session) {
  const Corpus& source = session.corpus->sources.front();
  const TokenShard& shard = source.validation ? *source.validation : source.train;
  const int64_t context = std::min(session.config.train.context, watched_context);
  const auto windows = evaluation_windows(shard.tokens(), context, watched_tokens);
  Batch batch;
  fill_batch(shard, windows, context, session.evaluation_plan().boundary, batch);
  return batch;
}

void add_head_metrics(const HeadSimilarity& heads, Json& line) {
  Json similarity;
  for (const auto& slot : heads.slots) {
    if (slot.after.heads < 2) continue;
    const std::string key = std::to_string(slot.layer) + "." + to_string(slot.slot);
    if (slot.before) similarity[key + ".before"] = slot.before->similarity;
    similarity[key + ".after"] = slot.after.similarity;
  }
  if (!similarity.empty()) line["heads/similarity"] = similarity;
}

void write_heads(const std::filesystem::path& run_folder, const TrainingState& state,
                 const HeadSimilarity& heads) {
  Json json{{"version", 1},
            {"step", state.step},
            {"tokens", state.tokens},
            {"positions", heads.positions},
            {"slots", Json::array()}};
  for (const auto& slot : heads.slots) json["slots"].push_back(to_json(slot));
  write_file_atomically(run_folder / "heads.json", json.dump() + "\n");
}

}  // namespace kha
