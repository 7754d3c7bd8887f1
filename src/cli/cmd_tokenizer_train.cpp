// kha tokenizer train: byte-level BPE learnt from the user's text.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "cli/live_line.h"
#include "cli/tokenizer_commands.h"
#include "kha/core/atomic_file.h"
#include "kha/core/tokenizer_training.h"

namespace kha::cli {
namespace {

struct Options {
  TokenizerTraining training;
  std::string to;
  bool overwrite = false;
  bool json = false;
};

// A tokenizer in use must not change under the models that were trained with it.
void check_target(const Options& options) {
  const auto file = std::filesystem::path(options.to) / "tokenizer.json";
  if (options.overwrite || !std::filesystem::exists(file)) return;
  fail({.what = "there is a tokenizer already",
        .where = file.string(),
        .cause = "models and token shards made with it would no longer be readable",
        .next = "give another folder with --to, or --overwrite"});
}

std::string stage_in_words(TrainingStage stage, std::uint64_t done, std::uint64_t total) {
  switch (stage) {
    case TrainingStage::reading:
      return "reading " + share_of_bytes(done, total);
    case TrainingStage::counting:
      return "counting words " + share_of_bytes(done, total);
    case TrainingStage::merging:
      return fmt::format("merging, {} of {} tokens", done, total);
  }
  return "";
}

void print_json(const Options& options, const TrainedTokenizer& trained, double seconds) {
  const nlohmann::ordered_json json{
      {"folder", options.to},           {"vocab_size", trained.vocab_size},
      {"merges", trained.merges},       {"split", options.training.split},
      {"nfc", options.training.nfc},    {"end", options.training.end},
      {"documents", trained.documents}, {"bytes", trained.bytes},
      {"words", trained.words},         {"seconds", seconds}};
  fmt::print("{}\n", json.dump(2));
}

void print_words(const Options& options, const TrainedTokenizer& trained, double seconds) {
  fmt::print("read {} documents, {:.1f} MB, {} different words\n", trained.documents,
             trained.bytes / 1e6, trained.words);
  fmt::print("learnt {} merges in {:.1f} s: {} tokens, the end mark {} is id 0\n", trained.merges,
             seconds, trained.vocab_size, options.training.end);
  if (trained.vocab_size < options.training.vocab_size) {
    fmt::print(
        "the text has no more pairs that come {} times: fewer tokens than the {} asked for\n",
        options.training.min_frequency, options.training.vocab_size);
  }
  fmt::print("wrote {}/tokenizer.json and tokenizer_config.json\n", options.to);
  fmt::print("next: kha tokenizer verify {} --against tokenizers TEXT\n", options.to);
}

int run(const Options& options) {
  check_target(options);
  const auto begin = std::chrono::steady_clock::now();
  std::mutex mutex;  // words are counted on several threads
  auto line = std::make_unique<LiveLine>();
  const TrainedTokenizer trained =
      train_tokenizer(options.training, [&](TrainingStage stage, auto done, auto total) {
        const std::lock_guard lock(mutex);
        if (line->due()) line->show(stage_in_words(stage, done, total));
      });
  line.reset();
  std::filesystem::create_directories(options.to);
  const std::filesystem::path to = options.to;
  write_file_atomically(to / "tokenizer_config.json", trained.tokenizer_config_json);
  write_file_atomically(to / "tokenizer.json", trained.tokenizer_json);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  options.json ? print_json(options, trained, took.count())
               : print_words(options, trained, took.count());
  return 0;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  TokenizerTraining& training = options->training;
  app.add_option("FILES", training.text.paths, "text files and folders")->required();
  app.add_option("--vocab-size", training.vocab_size, "tokens, with bytes and special ones")
      ->required();
  app.add_option("--to", options->to, "the folder of the tokenizer")->required();
  app.add_option("--split", training.split,
                 "how text is cut before merges: gpt2, llama3 or qwen (single digits)")
      ->capture_default_str();
  app.add_flag("--nfc", training.nfc, "normalise text to NFC, here and whenever it is used");
  app.add_option("--min-frequency", training.min_frequency,
                 "how often a pair must be met to become a token")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--end", training.end, "the end mark")->capture_default_str();
  app.add_option("--special", training.special, "one more special token; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--extensions", training.text.extensions, "which files of folders, as txt,md")
      ->delimiter(',');
  app.add_option("--threads", training.threads, "for counting words (default: all cores)");
  app.add_flag("--overwrite", options->overwrite, "replace the tokenizer in the folder");
  add_json_option(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace

Command tokenizer_train_command() { return {"train", "learn byte-level BPE from text", add}; }

}  // namespace kha::cli
