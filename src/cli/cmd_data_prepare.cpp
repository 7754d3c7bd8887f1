#include <memory>

#include "cli/cmd_data.h"
#include "cli/run_options.h"
#include "kha/core/corpus_line.h"
#include "kha/core/run_corpus.h"

namespace kha::cli {
namespace {

struct Arguments {
  RunArguments run;
};

int run(const Arguments& arguments) {
  Progress progress("");
  const RunConfig config = read_run(arguments.run);
  const RunCorpus corpus = prepare_run_corpus(config, CorpusLine(progress));
  for (const auto& line : describe(corpus)) progress.line(line);
  return 0;
}

}  // namespace

Command data_prepare_command() {
  return {"prepare", "turn a run's text into token shards, as `kha train` would",
          [](CLI::App& app) {
            auto arguments = std::make_shared<Arguments>();
            add_config_options(app, arguments->run);
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace kha::cli
