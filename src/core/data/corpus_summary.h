// The figures of a corpus as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "kha/core/corpus.h"

namespace kha {

nlohmann::ordered_json split_as_json(const SplitSummary& split);
SplitSummary split_from_json(const nlohmann::json& json);

nlohmann::ordered_json bad_lines_as_json(const BadLines& lines);
BadLines bad_lines_from_json(const nlohmann::json& json);

nlohmann::ordered_json text_as_json(const TextCounts& text);
TextCounts text_from_json(const nlohmann::json& json);

// Adds those of a later part.
void add(TextCounts& sum, const TextCounts& part);
void add(BadLines& sum, const BadLines& part);

// Throws Error for a line that may not be skipped any more.
[[noreturn]] void fail_for_line(const BadLine& line, const CorpusOptions& options);

// Sets what the preparation counted from summary.json; false when there is none that can be read.
bool read_counts(const std::filesystem::path& file, CorpusSummary& summary);

}  // namespace kha
