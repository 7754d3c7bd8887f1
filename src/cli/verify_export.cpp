#include "cli/verify_export.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/beside.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"
#include "kha/core/temporary_folder.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int most_tokens = 256;  // far enough that a wrong order of rotary channels shows
constexpr int continued = 24;

void run_program(const std::string& name, const std::vector<std::string>& arguments) {
  const auto program = program_beside(name);
  if (!program) {
    fail({.what = "verifying needs " + name + ", which is not installed beside kha",
          .next = "make build"});
  }
  const int code = run_child(*program, arguments);
  if (code == 0) return;
  fail({.what = "the verification could not run: " + name + " failed",
        .found = fmt::format("exit code {}", code),
        .next = "the model was written; what is wrong with the program is said above"});
}

std::vector<std::string> logits_arguments(const std::filesystem::path& model,
                                          const std::filesystem::path& ours, int64_t context,
                                          std::vector<std::string> text) {
  if (text.empty()) text.push_back((model / "tokenizer.json").string());
  const int64_t most = std::clamp<int64_t>(context - continued, 1, most_tokens);
  std::vector<std::string> words{"logits",      model.string(),      "--write",
                                 ours.string(), "--continue",        std::to_string(continued),
                                 "--most",      std::to_string(most)};
  for (const auto& each : text) words.insert(words.end(), {"--file", each});
  return words;
}

// One unit in the last place of the type written, over that of float32: what rounding to it may do.
double storage_factor(const std::string& dtype) {
  return dtype == "bfloat16" ? 0x1p16 : dtype == "float16" ? 0x1p13 : 1;
}

// As `kha diff` allows: twice the rounding of the two programs themselves.
double limit_of(const Json& found, double storage) {
  const double rounding =
      found.at("rounding_ours").get<double>() + found.at("rounding_theirs").get<double>();
  const double one_unit = 0x1p-23 * found.at("largest_log_probability").get<double>();
  return 2 * std::max(rounding, one_unit) * storage;
}

std::string continuation_line(const Json& found) {
  if (found.at("continuation_agrees")) {
    return fmt::format("greedy continuations of {} tokens agree", continued);
  }
  return fmt::format("greedy continuations differ from token {} on, where the two are {:.3g} apart",
                     found.at("first_difference").get<int>() + 1, found.at("gap").get<double>());
}

std::string verdict(const Json& found, double limit, bool equal) {
  return fmt::format(
      "verified in {} {}: largest difference of log-probabilities {:.3g} in float32, {:.3g} in "
      "float64, over {} positions (limit {:.3g})\n  {}\n{}\n",
      found.at("class").get<std::string>(), found.at("version").get<std::string>(),
      found.at("float32").get<double>(), found.at("float64").get<double>(),
      found.at("positions").get<int>(), limit, continuation_line(found),
      equal ? "equal to rounding"
            : "NOT EQUAL: the folder was left in place for inspection, do not use it");
}

}  // namespace

ExportProof verify_export(const std::filesystem::path& model, const std::filesystem::path& exported,
                          const ExportReport& written, const std::vector<std::string>& text) {
  const TemporaryFolder folder("verify");
  const auto ours = folder.path() / "ours.safetensors", answer = folder.path() / "answer.json";
  run_program("kha-engine",
              logits_arguments(model, ours, written.model.max_position_embeddings, text));
  run_program("kha-hf-peer", {exported.string(), ours.string(), answer.string()});
  const MappedFile file = MappedFile::open(answer);
  const auto* begin = reinterpret_cast<const char*>(file.bytes().data());
  Json found = Json::parse(begin, begin + file.bytes().size());
  const double limit = limit_of(found, written.rounded ? storage_factor(written.model.dtype) : 1);
  // Two tokens may be nearer to each other than the difference allowed.
  const bool same_text = found.at("continuation_agrees") || found.at("gap").get<double>() <= limit;
  const bool equal = found.at("float32").get<double>() <= limit && same_text;
  found["limit"] = limit;
  found["equal"] = equal;
  return {equal, verdict(found, limit, equal), found};
}

}  // namespace kha::cli
