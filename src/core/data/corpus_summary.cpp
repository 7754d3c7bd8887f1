#include "core/data/corpus_summary.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "kha/core/error.h"
#include "kha/core/progress.h"

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

nlohmann::ordered_json bad_lines_as_json(const BadLines& lines) {
  auto first = nlohmann::ordered_json::array();
  for (const BadLine& line : lines.first) {
    first.push_back({{"what", line.what},
                     {"where", line.where},
                     {"expected", line.expected},
                     {"found", line.found}});
  }
  return {{"count", lines.count}, {"first", first}};
}

BadLines bad_lines_from_json(const nlohmann::json& json) {
  BadLines lines{.count = json.at("count"), .first = {}};
  for (const auto& line : json.at("first")) {
    lines.first.push_back(
        {line.at("what"), line.at("where"), line.at("expected"), line.at("found")});
  }
  return lines;
}

nlohmann::ordered_json text_as_json(const TextCounts& text) {
  return {{"carriage_returns", text.carriage_returns},
          {"byte_order_marks", text.byte_order_marks},
          {"invalid_bytes", text.invalid_bytes}};
}

TextCounts text_from_json(const nlohmann::json& json) {
  return {.carriage_returns = json.at("carriage_returns"),
          .byte_order_marks = json.at("byte_order_marks"),
          .invalid_bytes = json.at("invalid_bytes")};
}

void add(TextCounts& sum, const TextCounts& part) {
  sum.carriage_returns += part.carriage_returns;
  sum.byte_order_marks += part.byte_order_marks;
  sum.invalid_bytes += part.invalid_bytes;
}

void add(BadLines& sum, const BadLines& part) {
  constexpr std::size_t most_shown = 3;
  sum.count += part.count;
  for (const BadLine& line : part.first) {
    if (sum.first.size() < most_shown) sum.first.push_back(line);
  }
}

void fail_for_line(const BadLine& line, const CorpusOptions& options) {
  const std::int64_t most = options.most_bad_lines;
  fail({.what = line.what,
        .where = line.where,
        .expected = line.expected,
        .found = line.found,
        .cause = most > 0 ? "more than " + std::to_string(most) +
                                " lines are no documents, and data.bad_lines allows no more"
                          : "",
        .next = "mend the line, or skip such lines up to a number: --set data.bad_lines=" +
                std::to_string(most > 0 ? 10 * most : 10)});
}

std::string to_json(const CorpusSummary& summary) {
  const nlohmann::ordered_json json = {{"fingerprint", summary.fingerprint},
                                       {"validation_share", summary.validation_share},
                                       {"split_seed", summary.split_seed},
                                       {"train", split_as_json(summary.train)},
                                       {"validation", split_as_json(summary.validation)},
                                       {"empty_documents", summary.empty_documents},
                                       {"bad_lines", bad_lines_as_json(summary.bad_lines)},
                                       {"text", text_as_json(summary.text)},
                                       {"skipped", skipped_as_json(summary.skipped)}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<std::string> describe(const CorpusSummary& s) {
  const double bytes = static_cast<double>(s.train.bytes + s.validation.bytes);
  std::vector<std::string> lines{fmt::format(
      "text: {} in {} documents, {} tokens to train on, {} held out in {} documents ({})",
      bytes_text(bytes), s.train.documents + s.validation.documents, s.train.tokens,
      s.validation.tokens, s.validation.documents,
      s.reused ? "shards were there" : "shards written to " + s.folder.string())};
  const std::pair<std::int64_t, const char*> skipped[] = {
      {s.skipped.empty, "empty files"},
      {s.skipped.binary, "binary files"},
      {s.empty_documents, "documents without text"},
      {s.bad_lines.count, "bad lines"}};
  std::string text;
  for (const auto& [count, kind] : skipped) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  if (!text.empty()) lines.push_back("  skipped: " + text);
  for (const BadLine& line : s.bad_lines.first) {
    lines.push_back(fmt::format("    {}: {}", line.where, line.what));
  }
  if (s.text_changed()) {
    lines.push_back(fmt::format(
        "  note: this text is not the one the configuration names (fingerprint {}, expected {}); "
        "losses do not compare with that one's",
        s.fingerprint, s.expected_fingerprint));
  }
  return lines;
}

bool read_counts(const std::filesystem::path& file, CorpusSummary& summary) {
  std::ifstream stream(file);
  if (!stream) return false;
  try {
    const auto json = nlohmann::json::parse(stream);
    summary.train = split_from_json(json.at("train"));
    summary.validation = split_from_json(json.at("validation"));
    summary.empty_documents = json.at("empty_documents");
    summary.bad_lines = bad_lines_from_json(json.at("bad_lines"));
    summary.text = text_from_json(json.at("text"));
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace kha
