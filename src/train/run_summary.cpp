#include "train/run_summary.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "kha/core/atomic_file.h"
#include "kha/core/counts.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

// What the figures depend on beside the weights.
Json key_of(const Session& session) {
  const EvaluationPlan plan = session.evaluation_plan();
  return {{"step", session.state.step},
          {"text", session.corpus->fingerprint()},
          {"split_seed", session.config.data.split_seed},
          {"validation_share", session.config.data.validation_share},
          {"context", plan.context},
          {"max_tokens", plan.max_tokens},
          {"boundary_targets", plan.boundary == BoundaryTargets::counted}};
}

Json to_json(const Evaluation& e) {
  return {{"loss", e.loss()}, {"bits_per_byte", e.bits_per_byte()},
          {"nats", e.nats},   {"targets", e.targets},
          {"bytes", e.bytes}, {"documents", documents_to_json(e.documents)}};
}

Evaluation evaluation_from(const Json& json) {
  Evaluation e{.nats = json.at("nats"), .targets = json.at("targets"), .bytes = json.at("bytes")};
  for (const auto& [document, loss] : json.at("documents").items()) {
    e.documents[std::stoll(document)] = {loss.at(0), loss.at(1)};
  }
  return e;
}

}  // namespace

Json documents_to_json(const DocumentLosses& losses) {
  Json documents = Json::object();
  for (const auto& [document, loss] : losses) {
    documents[std::to_string(document)] = {loss.nats, loss.targets};
  }
  return documents;
}

std::optional<RunSummary> read_run_summary(const std::filesystem::path& run_folder,
                                           const Session& session) {
  std::ifstream file(run_folder / "summary.json");
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("of") || json["of"] != key_of(session)) return {};
  RunSummary summary{.tokens_per_second = json.at("tokens_per_second"),
                     .mfu = json.value("mfu", 0.0),
                     .peak_bytes = json.at("peak_bytes")};
  if (!json.at("validation").is_null()) summary.validation = evaluation_from(json["validation"]);
  return summary;
}

void write_run_summary(const std::filesystem::path& run_folder, const Session& session,
                       const RunSummary& summary) {
  const ModelConfig& model = session.config.model;
  const ParameterCount count = count_parameters(model);
  const FlopCount flops = flops_per_token(model, session.config.train.context);
  const Json json{{"of", key_of(session)},
                  {"parameters", count.total},
                  {"knock_parameters", count.knock},
                  {"flops_per_token", flops.forward},
                  {"knock_flops_per_token", flops.knock},
                  {"tokens_per_second", summary.tokens_per_second},
                  {"mfu", summary.mfu},
                  {"peak_bytes", summary.peak_bytes},
                  {"spikes", Json::parse(to_json(summary.spikes))},
                  {"validation", summary.validation ? to_json(*summary.validation) : Json()}};
  write_file_atomically(run_folder / "summary.json", json.dump() + "\n");
}

}  // namespace kha
