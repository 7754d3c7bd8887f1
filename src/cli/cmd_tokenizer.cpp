// kha tokenizer: sub-word tokenizers made from text, used, and compared with the public package.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"

namespace kha::cli {
namespace {

std::function<int()> add(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> parts;
  for (const Command& part : {tokenizer_train_command(), tokenizer_encode_command(),
                              tokenizer_decode_command(), tokenizer_verify_command()}) {
    CLI::App* sub = app.add_subcommand(part.name, part.summary);
    parts.emplace_back(sub, part.add(*sub));
  }
  return [parts] {
    for (const auto& [sub, run] : parts) {
      if (sub->parsed()) return run();
    }
    return 0;
  };
}

}  // namespace

Command tokenizer_command() {
  return {"tokenizer", "train a tokenizer on text, encode, decode, compare with the package", add};
}

}  // namespace kha::cli
