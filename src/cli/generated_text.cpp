#include "cli/generated_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "kha/core/error.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

// "float32", or what the numbers are rounded to.
std::string cache_numbers(const Generation& how) {
  return how.kv_cache == "model" ? "float32" : how.kv_cache + " with a float32 scale a head";
}

std::string cache_text(const GenerateResult& result, const Generation& how) {
  if (!result.cache) return "no cache";
  const CacheUse& use = *result.cache;
  return fmt::format("KV cache in {}: {} bytes a token, {} bytes for {} positions",
                     cache_numbers(how), use.bytes_per_token, use.bytes, use.positions);
}

nlohmann::ordered_json cache_json(const GenerateResult& result, const Generation& how) {
  if (!result.cache) return nullptr;
  const CacheUse& use = *result.cache;
  return {{"numbers", cache_numbers(how)},
          {"bytes_a_token", use.bytes_per_token},
          {"positions", use.positions},
          {"bytes", use.bytes}};
}

// Bytes that are no UTF-8 cannot stand in JSON; `ids` has them.
void print_object(const Json& json) {
  print_piece(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

size_t tokens_of(const std::vector<GenerateResult>& results) {
  size_t tokens = 0;
  for (const GenerateResult& result : results) tokens += result.ids.size();
  return tokens;
}

}  // namespace

void print_piece(const std::string& piece) {
  const bool written = std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size();
  if (written && std::fflush(stdout) == 0) return;
  fail({.what = "the text cannot be written",
        .where = "standard output",
        .cause = "the disk is full, or the reader is gone"});
}

void print_summary(const GenerateResult& result, int64_t prompt_tokens, const Generation& how) {
  if (isatty(STDOUT_FILENO)) print_piece("\n");
  fmt::print(stderr,
             "{}: {} tokens after {} of prompt, {:.1f} tokens/s, {}, {} on {}, {} threads, {}\n",
             in_words(result.reason), result.ids.size(), prompt_tokens,
             how.tokens_per_second(result.ids.size()),
             how.sampling.temperature == 0 ? std::string("no sampling")
                                           : fmt::format("seed {}", how.sampling.seed),
             how.ran.at("precision"), how.ran.at("device"), how.ran.at("threads"),
             cache_text(result, how));
}

void print_json(const GenerateResult& result, int64_t prompt_tokens, const Generation& how) {
  Json json{{"text", result.text}, {"reason", to_string(result.reason)}};
  if (result.stop) json["stop"] = *result.stop;
  json.update({{"ids", result.ids},
               {"tokens", result.ids.size()},
               {"prompt_tokens", prompt_tokens},
               {"tokens_per_second", how.tokens_per_second(result.ids.size())},
               {"seed", how.sampling.seed},
               {"kv_cache", cache_json(result, how)},
               {"ran", how.ran}});
  print_object(json);
}

void print_batch(const std::vector<std::string>& prompts,
                 const std::vector<GenerateResult>& results, const Generation& how) {
  for (size_t i = 0; i < results.size(); ++i) print_piece(prompts[i] + results[i].text + "\n\n");
  const size_t tokens = tokens_of(results);
  fmt::print(stderr, "{} texts in one batch: {} tokens, {:.1f} tokens/s, seed {}, {}\n",
             results.size(), tokens, how.tokens_per_second(tokens), how.sampling.seed,
             cache_text(results.front(), how));
}

void print_batch_json(const std::vector<std::string>& prompts,
                      const std::vector<GenerateResult>& results, const Generation& how) {
  Json texts = Json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    texts.push_back({{"prompt", prompts[i]},
                     {"text", results[i].text},
                     {"reason", to_string(results[i].reason)},
                     {"ids", results[i].ids}});
  }
  print_object({{"texts", texts},
                {"tokens_per_second", how.tokens_per_second(tokens_of(results))},
                {"seed", how.sampling.seed},
                {"kv_cache", cache_json(results.front(), how)},
                {"ran", how.ran}});
}

}  // namespace kha::cli
