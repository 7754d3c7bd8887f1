// `kha`: everything that needs no tensors, in milliseconds. What needs them is `kha-engine`, which
// this program becomes; any other `kha NAME` becomes `kha-NAME` beside it.
#include "cli/beside.h"
#include "cli/commands.h"
#include "cli/engine_names.h"
#include "cli/program.h"
#include "kha/core/error.h"

namespace kha::cli {
namespace {

bool is_engine_call(int argc, char** argv) {
  for (const auto& [name, summary] : engine_commands()) {
    if (name == argv[1]) return true;
  }
  for (int i = 2; i < argc && std::string(argv[1]) == "doctor"; ++i) {
    if (std::string(argv[i]) == "--self-test") return true;
  }
  return false;
}

bool is_own_command(const std::string& name, const std::vector<Command>& commands) {
  for (const auto& command : commands) {
    if (command.name == name) return true;
  }
  return false;
}

void hand_over(int argc, char** argv, const std::vector<Command>& own) {
  const std::vector<std::string> rest(argv + 1, argv + argc);
  if (is_engine_call(argc, argv)) {
    const auto engine = program_beside("kha-engine");
    if (!engine) {
      fail({.what = "`kha " + rest[0] + "` needs kha-engine, which is not installed beside kha",
            .next = "make build"});
    }
    become(*engine, rest);
  }
  if (rest[0].empty() || rest[0][0] == '-' || is_own_command(rest[0], own)) return;
  if (rest[0].find('/') != std::string::npos) return;
  if (const auto companion = program_beside("kha-" + rest[0])) {
    become(*companion, {rest.begin() + 1, rest.end()});
  }
}

// Named for `kha --help`; the engine has them.
Command engine_entry(const std::string& name, const std::string& summary) {
  return {name, summary, [](CLI::App&) { return [] { return 0; }; }};
}

int run(int argc, char** argv) {
  std::vector<Command> commands{fold_command(),   convert_command(),   export_command(),
                                insert_command(), inspect_command(),   doctor_command(),
                                data_command(),   tokenizer_command(), plan_command()};
  if (argc > 1) {
    try {
      hand_over(argc, argv, commands);
    } catch (const Error& error) {
      return print_error(error);
    }
  }
  for (const auto& [name, summary] : engine_commands())
    commands.insert(commands.begin(), engine_entry(name, summary));
  return run_program("kha", "knocking-heads attention: train, compare, fold, generate, inspect",
                     commands, argc, argv);
}

}  // namespace
}  // namespace kha::cli

int main(int argc, char** argv) { return kha::cli::run(argc, argv); }
