// The figures of a corpus as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "kha/core/corpus.h"

namespace kha {

nlohmann::ordered_json split_as_json(const SplitSummary& split);
SplitSummary split_from_json(const nlohmann::json& json);

// Sets what the preparation counted from summary.json; false when there is none that can be read.
bool read_counts(const std::filesystem::path& file, CorpusSummary& summary);

}  // namespace kha
