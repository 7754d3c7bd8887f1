#include "cli/engine_logits.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/beside.h"
#include "cli/text_input.h"
#include "core/store/text_of_file.h"
#include "kha/core/error.h"

namespace kha::cli {
namespace {

constexpr int most_tokens = 256;  // far enough that a wrong order of rotary channels shows

}  // namespace

std::filesystem::path peer_program(const std::string& name) {
  if (const auto program = program_beside(name)) return *program;
  fail({.what = "verifying needs " + name + ", which is not installed beside kha",
        .next = "make build"});
}

int run_peer(const std::string& name, const std::vector<std::string>& arguments) {
  return run_child(peer_program(name), arguments);
}

void fail_peer(const std::string& name, int code) {
  fail({.what = "the verification could not run: " + name + " failed",
        .found = fmt::format("exit code {}", code),
        .next = "the model was written; what is wrong with the program is said above"});
}

void write_engine_logits(const std::filesystem::path& model, const std::filesystem::path& file,
                         std::int64_t context, std::vector<std::string> text) {
  if (text.empty()) text.push_back(own_text(model));
  const std::int64_t most = std::clamp<std::int64_t>(context - continued_tokens, 1, most_tokens);
  std::vector<std::string> words{"logits",     model.string(),
                                 "--write",    file.string(),
                                 "--continue", std::to_string(continued_tokens),
                                 "--most",     std::to_string(most)};
  for (const auto& each : text) words.insert(words.end(), {"--file", each});
  const int code = run_peer("kha-engine", words);
  if (code != 0) fail_peer("kha-engine", code);
}

nlohmann::ordered_json read_answer(const std::filesystem::path& file) {
  return nlohmann::ordered_json::parse(text_of_file(file));
}

std::string continuation_line(const nlohmann::ordered_json& answer) {
  if (answer.at("continuation_agrees")) {
    return fmt::format("greedy continuations of {} tokens agree", continued_tokens);
  }
  return fmt::format("greedy continuations differ from token {} on, where the two are {:.3g} apart",
                     answer.at("first_difference").get<int>() + 1, answer.at("gap").get<double>());
}

}  // namespace kha::cli
