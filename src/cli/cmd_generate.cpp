#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"
#include "kha/core/model_folder.h"
#include "model/generate/generate.h"
#include "model/generate/generate_batch.h"
#include "train/what_ran.h"

namespace kha::cli {
namespace {

struct Arguments {
  std::string model, prompt, prompt_file, prompts, device = "cpu", kv_cache = "model";
  int64_t max_tokens = 200;
  SamplingOptions sampling;
  std::optional<uint64_t> seed;
  std::vector<std::string> stops;
  bool no_cache = false, json = false;
};

std::string read_text(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

GenerateOptions options_of(const Arguments& a, const Arithmetic& arithmetic) {
  GenerateOptions options{.max_new_tokens = a.max_tokens,
                          .sampling = a.sampling,
                          .stops = a.stops,
                          .use_cache = !a.no_cache,
                          .kv_cache = parse_kv_cache_kind(a.kv_cache, "--kv-cache"),
                          .device = arithmetic.device};
  options.sampling.seed = a.seed ? *a.seed : std::random_device()();
  return options;
}

// float32 throughout: in a narrower type the cache would change choices by rounding.
Arithmetic arithmetic_of(const Arguments& a, const GenerateOptions& defaults) {
  RunConfig config;
  config.train.device = a.device;
  config.train.precision = "fp32";
  std::vector<std::string> warnings;
  Arithmetic arithmetic = resolve_arithmetic(config, warnings);
  arithmetic.plan = defaults.plan;
  return arithmetic;
}

void print_piece(const std::string& piece) {
  const bool written = std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size();
  if (written && std::fflush(stdout) == 0) return;
  fail({.what = "the text cannot be written",
        .where = "standard output",
        .cause = "the disk is full, or the reader is gone"});
}

struct Outcome {
  GenerateResult result;
  int64_t prompt_tokens;
  double seconds;
  uint64_t seed;
  WhatRan ran;

  double tokens_per_second() const { return seconds > 0 ? double(result.ids.size()) / seconds : 0; }
};

// "float32", or what the numbers are rounded to.
std::string cache_numbers(const Arguments& a) {
  return a.kv_cache == "model" ? "float32" : a.kv_cache + " with a float32 scale a head";
}

std::string cache_text(const GenerateResult& result, const Arguments& a) {
  if (!result.cache) return "no cache";
  const CacheUse& use = *result.cache;
  return fmt::format("KV cache in {}: {} bytes a token, {} bytes for {} positions",
                     cache_numbers(a), use.bytes_per_token, use.bytes, use.positions);
}

nlohmann::ordered_json cache_json(const GenerateResult& result, const Arguments& a) {
  if (!result.cache) return nullptr;
  const CacheUse& use = *result.cache;
  return {{"numbers", cache_numbers(a)},
          {"bytes_a_token", use.bytes_per_token},
          {"positions", use.positions},
          {"bytes", use.bytes}};
}

void print_json(const Outcome& o, const Arguments& a) {
  nlohmann::ordered_json json{{"text", o.result.text}, {"reason", to_string(o.result.reason)}};
  if (o.result.stop) json["stop"] = *o.result.stop;
  json.update({{"ids", o.result.ids},
               {"tokens", o.result.ids.size()},
               {"prompt_tokens", o.prompt_tokens},
               {"tokens_per_second", o.tokens_per_second()},
               {"seed", o.seed},
               {"kv_cache", cache_json(o.result, a)},
               {"ran", o.ran}});
  // Bytes that are no UTF-8 cannot stand in JSON; `ids` has them.
  print_piece(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void print_summary(const Outcome& o, const Arguments& a) {
  if (isatty(STDOUT_FILENO)) print_piece("\n");
  fmt::print(
      stderr, "{}: {} tokens after {} of prompt, {:.1f} tokens/s, {}, {} on {}, {} threads, {}\n",
      in_words(o.result.reason), o.result.ids.size(), o.prompt_tokens, o.tokens_per_second(),
      a.sampling.temperature == 0 ? std::string("no sampling") : fmt::format("seed {}", o.seed),
      o.ran.at("precision"), o.ran.at("device"), o.ran.at("threads"), cache_text(o.result, a));
}

// One prompt a line; an empty line is an empty prompt.
std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::istringstream text(read_text(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  if (!lines.empty()) return lines;
  fail({.what = "there is no prompt in this file",
        .where = path.string(),
        .expected = "one prompt a line",
        .found = "an empty file"});
}

void print_batch(const std::vector<std::string>& prompts,
                 const std::vector<GenerateResult>& results, double seconds, const Arguments& a,
                 const WhatRan& ran, uint64_t seed) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  size_t tokens = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const GenerateResult& result = results[i];
    tokens += result.ids.size();
    texts.push_back({{"prompt", prompts[i]},
                     {"text", result.text},
                     {"reason", to_string(result.reason)},
                     {"ids", result.ids}});
    if (!a.json) print_piece(prompts[i] + result.text + "\n\n");
  }
  const double speed = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  if (a.json) {
    const nlohmann::ordered_json json{{"texts", texts},
                                      {"tokens_per_second", speed},
                                      {"seed", seed},
                                      {"kv_cache", cache_json(results.front(), a)},
                                      {"ran", ran}};
    return print_piece(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                       "\n");
  }
  fmt::print(stderr, "{} texts in one batch: {} tokens, {:.1f} tokens/s, seed {}, {}\n",
             results.size(), tokens, speed, seed, cache_text(results.front(), a));
}

// Every prompt of a file in one batch.
int run_batch(const Arguments& a) {
  const std::vector<std::string> lines = read_lines(a.prompts);
  const Arithmetic arithmetic = arithmetic_of(a, {});
  const GenerateOptions options = options_of(a, arithmetic);
  const LoadedModel model = open_model(resolve_model_folder(a.model));
  std::vector<std::vector<int64_t>> prompts(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    model.tokenizer->encode_with_special(lines[i], prompts[i], /*with_around=*/true);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto results = generate_batch(model, prompts, options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_batch(lines, results, seconds, a, what_ran(arithmetic, model.config),
              options.sampling.seed);
  return 0;
}

int run(const Arguments& a) {
  if (!a.prompts.empty()) return run_batch(a);
  const auto folder = resolve_model_folder(a.model);
  const std::string text = a.prompt_file.empty() ? a.prompt : read_text(a.prompt_file);
  const Arithmetic arithmetic = arithmetic_of(a, {});
  const GenerateOptions options = options_of(a, arithmetic);
  validate(options.sampling);
  const LoadedModel model = open_model(folder);
  // As transformers reads a prompt: marks that are written out count, a start mark is put before
  // it.
  std::vector<int64_t> prompt;
  model.tokenizer->encode_with_special(text, prompt, /*with_around=*/true);
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome{
      .result = generate(model, prompt, options,
                         a.json ? std::function<void(const std::string&)>() : print_piece),
      .prompt_tokens = static_cast<int64_t>(std::max<size_t>(prompt.size(), 1)),
      .seconds = 0,
      .seed = options.sampling.seed,
      .ran = what_ran(arithmetic, model.config)};
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  a.json ? print_json(outcome, a) : print_summary(outcome, a);
  return 0;
}

void add_sampling(CLI::App& app, Arguments& a) {
  app.add_option("--temperature", a.sampling.temperature, "0: always the most probable token")
      ->capture_default_str();
  app.add_option("--top-k", a.sampling.top_k, "choose among the k most probable tokens; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", a.sampling.top_p,
                 "choose among the fewest tokens with this share of the probability")
      ->capture_default_str();
  app.add_option("--seed", a.seed, "of the sampling; none: a new one, which is printed")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
}

}  // namespace

Command generate_command() {
  return {"generate", "continue a text", [](CLI::App& app) {
            auto a = std::make_shared<Arguments>();
            app.add_option("model", a->model, "model or run folder")->required();
            auto* prompt = app.add_option(
                "--prompt", a->prompt,
                "the text to continue; none or an empty one: the model starts from its "
                "end mark, which stands before every document");
            auto* file =
                app.add_option("--prompt-file", a->prompt_file, "a file with the text to continue")
                    ->excludes(prompt);
            app.add_option("--prompts", a->prompts,
                           "a file with one text to continue a line, all in one batch; each comes "
                           "out as it would alone")
                ->excludes(prompt)
                ->excludes(file);
            app.add_option("--max-tokens", a->max_tokens,
                           "most tokens to write; the model's context also ends it")
                ->capture_default_str();
            add_sampling(app, *a);
            app.add_option("--stop", a->stops, "end before this text; may be given more than once")
                ->allow_extra_args(false);
            auto* no_cache = app.add_flag("--no-cache", a->no_cache,
                                          "compute every token from the whole text before it");
            app.add_option("--kv-cache", a->kv_cache,
                           "numbers of the cache: model, those of the arithmetic, or int8, a byte "
                           "an element with a scale a head and position")
                ->excludes(no_cache)
                ->capture_default_str();
            app.add_option("--device", a->device, "cpu or cuda")
                ->check(CLI::IsMember({"cpu", "cuda"}))
                ->capture_default_str();
            add_json_option(app, a->json);
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
