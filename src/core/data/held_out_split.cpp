#include "core/data/held_out_split.h"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string>

#include "kha/core/checksum.h"
#include "kha/core/error.h"

namespace kha {

void check_share(double share) {
  if (share >= 0 && share < 1) return;
  fail({.what = "the validation share is not a part of the text",
        .where = "validation share",
        .expected = "a number from 0 (no validation) to below 1",
        .found = fmt::format("{}", share),
        .cause = share > 1 ? "a percentage instead of a share" : "",
        .next = share > 1 && share < 100 ? fmt::format("write {}", share / 100) : ""});
}

bool is_held_out(const std::string& relative_path, std::uint64_t line,
                 const CorpusOptions& options) {
  ChecksumStream hash;
  hash.update(std::as_bytes(std::span(&options.split_seed, 1)));
  hash.update(std::as_bytes(std::span(relative_path)));
  if (line > 0) {
    hash.update(std::as_bytes(std::span("", 1)));  // no path has a NUL byte
    hash.update(std::as_bytes(std::span(&line, 1)));
  }
  // Exact: the share is only moved by a power of two, and stays below 2^64.
  return hash.digest() < static_cast<std::uint64_t>(std::ldexp(options.validation_share, 64));
}

namespace {

std::string needed(std::int64_t context) {
  return fmt::format("at least {} tokens: one window of context {} and one token more", context + 1,
                     context);
}

void check_whole(std::int64_t tokens, std::int64_t documents, std::int64_t context) {
  if (tokens > context) return;
  fail({.what = "the whole text is shorter than one window",
        .expected = needed(context),
        .found = fmt::format("{} tokens in {} documents", tokens, documents),
        .next = tokens < 2
                    ? "add text"
                    : fmt::format("add text, or set the context to {} or less", tokens - 1)});
}

std::string how_to_enlarge(const char* change_of_share, std::int64_t documents) {
  if (documents == 1) {
    return "divide the text into several files, or set the validation share to 0 to train without "
           "validation";
  }
  return fmt::format(
      "{} the validation share, add documents, try another split seed or a shorter context, or set "
      "the share to 0 to train without validation",
      change_of_share);
}

void check_side(const char* name, const char* change_of_share, const SplitSummary& side,
                std::int64_t documents, const CorpusOptions& options) {
  if (side.tokens > options.context) return;
  fail({.what = fmt::format("the {} split is too small", name),
        .where = fmt::format("validation share {}, split seed {}", options.validation_share,
                             options.split_seed),
        .expected = needed(options.context),
        .found =
            fmt::format("{} tokens in {} of {} documents", side.tokens, side.documents, documents),
        .cause = "whole documents are held out, never parts of them",
        .next = how_to_enlarge(change_of_share, documents)});
}

}  // namespace

void check_sizes(const CorpusSummary& summary, const CorpusOptions& options) {
  const SplitSummary &train = summary.train, &validation = summary.validation;
  const std::int64_t documents = train.documents + validation.documents;
  check_whole(train.tokens + validation.tokens, documents, options.context);
  if (options.validation_share > 0) {
    check_side("validation", "raise", validation, documents, options);
  }
  check_side("training", "lower", train, documents, options);
}

}  // namespace kha
