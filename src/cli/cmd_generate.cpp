#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <sstream>

#include "cli/commands.h"
#include "cli/generated_text.h"
#include "cli/open_model.h"
#include "core/store/text_of_file.h"
#include "kha/core/error.h"
#include "kha/core/model_folder.h"
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

// One prompt a line; an empty line is an empty prompt.
std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::istringstream text(text_of_file(path));
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

// As transformers reads a prompt: marks that are written out count, a start mark is put before it.
std::vector<int64_t> ids_of(const LoadedModel& model, const std::string& text) {
  std::vector<int64_t> ids;
  model.tokenizer->encode_with_special(text, ids, /*with_around=*/true);
  return ids;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Generation generation_of(const Arguments& a, const GenerateOptions& options,
                         const Arithmetic& arithmetic, const LoadedModel& model, double seconds) {
  return {.sampling = options.sampling,
          .kv_cache = a.kv_cache,
          .ran = what_ran(arithmetic, model.config),
          .seconds = seconds};
}

// Every prompt of a file in one batch.
int run_batch(const Arguments& a) {
  const std::vector<std::string> lines = read_lines(a.prompts);
  const Arithmetic arithmetic = arithmetic_of(a, {});
  const GenerateOptions options = options_of(a, arithmetic);
  const LoadedModel model = open_model(resolve_model_folder(a.model));
  std::vector<std::vector<int64_t>> prompts;
  for (const std::string& line : lines) prompts.push_back(ids_of(model, line));
  const auto start = std::chrono::steady_clock::now();
  const auto results = generate_batch(model, prompts, options);
  const Generation how = generation_of(a, options, arithmetic, model, seconds_since(start));
  a.json ? print_batch_json(lines, results, how) : print_batch(lines, results, how);
  return 0;
}

int run_one(const Arguments& a) {
  const auto folder = resolve_model_folder(a.model);
  const std::string text = a.prompt_file.empty() ? a.prompt : text_of_file(a.prompt_file);
  const Arithmetic arithmetic = arithmetic_of(a, {});
  const GenerateOptions options = options_of(a, arithmetic);
  validate(options.sampling);
  const LoadedModel model = open_model(folder);
  const std::vector<int64_t> prompt = ids_of(model, text);
  const auto start = std::chrono::steady_clock::now();
  const GenerateResult result = generate(
      model, prompt, options, a.json ? std::function<void(const std::string&)>() : print_piece);
  const Generation how = generation_of(a, options, arithmetic, model, seconds_since(start));
  const auto prompt_tokens = static_cast<int64_t>(std::max<size_t>(prompt.size(), 1));
  a.json ? print_json(result, prompt_tokens, how) : print_summary(result, prompt_tokens, how);
  return 0;
}

void add_prompt(CLI::App& app, Arguments& a) {
  auto* prompt =
      app.add_option("--prompt", a.prompt,
                     "the text to continue; none or an empty one: the model starts from its "
                     "end mark, which stands before every document");
  auto* file = app.add_option("--prompt-file", a.prompt_file, "a file with the text to continue")
                   ->excludes(prompt);
  app.add_option("--prompts", a.prompts,
                 "a file with one text to continue a line, all in one batch; each comes "
                 "out as it would alone")
      ->excludes(prompt)
      ->excludes(file);
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

void add_cache(CLI::App& app, Arguments& a) {
  auto* no_cache =
      app.add_flag("--no-cache", a.no_cache, "compute every token from the whole text before it");
  app.add_option("--kv-cache", a.kv_cache,
                 "numbers of the cache: model, those of the arithmetic, or int8, a byte "
                 "an element with a scale a head and position")
      ->excludes(no_cache)
      ->capture_default_str();
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("model", a->model, "model or run folder")->required();
  add_prompt(app, *a);
  app.add_option("--max-tokens", a->max_tokens,
                 "most tokens to write; the model's context also ends it")
      ->capture_default_str();
  add_sampling(app, *a);
  app.add_option("--stop", a->stops, "end before this text; may be given more than once")
      ->allow_extra_args(false);
  add_cache(app, *a);
  app.add_option("--device", a->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  add_json_option(app, a->json);
  return [a] { return a->prompts.empty() ? run_one(*a) : run_batch(*a); };
}

}  // namespace

Command generate_command() { return {"generate", "continue a text", add}; }

}  // namespace kha::cli
