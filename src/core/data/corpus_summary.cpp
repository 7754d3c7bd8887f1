#include "core/data/corpus_summary.h"

#include <fstream>

namespace kha {
namespace {

nlohmann::ordered_json skipped_as_json(const SkippedFiles& skipped) {
  return {{"empty", skipped.empty},
          {"binary", skipped.binary},
          {"other_extension", skipped.other_extension},
          {"hidden", skipped.hidden},
          {"not_a_file", skipped.not_a_file},
          {"repeated", skipped.repeated}};
}

}  // namespace

nlohmann::ordered_json split_as_json(const SplitSummary& split) {
  return {{"documents", split.documents}, {"tokens", split.tokens}, {"bytes", split.bytes}};
}

SplitSummary split_from_json(const nlohmann::json& json) {
  return {
      .documents = json.at("documents"), .tokens = json.at("tokens"), .bytes = json.at("bytes")};
}

std::string to_json(const CorpusSummary& summary) {
  const nlohmann::ordered_json json = {{"fingerprint", summary.fingerprint},
                                       {"validation_share", summary.validation_share},
                                       {"split_seed", summary.split_seed},
                                       {"train", split_as_json(summary.train)},
                                       {"validation", split_as_json(summary.validation)},
                                       {"empty_documents", summary.empty_documents},
                                       {"skipped", skipped_as_json(summary.skipped)}};
  return json.dump(2) + "\n";
}

bool read_counts(const std::filesystem::path& file, CorpusSummary& summary) {
  std::ifstream stream(file);
  if (!stream) return false;
  try {
    const auto json = nlohmann::json::parse(stream);
    summary.train = split_from_json(json.at("train"));
    summary.validation = split_from_json(json.at("validation"));
    summary.empty_documents = json.at("empty_documents");
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace kha
