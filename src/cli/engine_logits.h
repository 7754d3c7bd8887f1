// What the engine makes of a text, as a file for another program to compare with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kha::cli {

constexpr int continued_tokens = 24;

// `kha logits --write` of the first tokens of the text (none: the model's tokenizer.json), with a
// greedy continuation of continued_tokens. Errors: no engine, or it fails.
void write_engine_logits(const std::filesystem::path& model, const std::filesystem::path& file,
                         std::int64_t context, std::vector<std::string> text);

// The companion's file. Errors: it is not installed, which is to be asked before long work.
std::filesystem::path peer_program(const std::string& name);

// Runs the companion; returns its exit code. Errors: it is not installed.
int run_peer(const std::string& name, const std::vector<std::string>& arguments);
[[noreturn]] void fail_peer(const std::string& name, int code);

nlohmann::ordered_json read_answer(const std::filesystem::path& file);

// One line, of the answer's keys continuation_agrees, first_difference and gap.
std::string continuation_line(const nlohmann::ordered_json& answer);

}  // namespace kha::cli
