#include "cli/verify_export.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/engine_logits.h"
#include "kha/core/temporary_folder.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

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

void require_verifiers() {
  for (const char* name : {"kha-engine", "kha-hf-peer"}) peer_program(name);
}

ExportProof verify_export(const std::filesystem::path& model, const std::filesystem::path& exported,
                          const ExportReport& written, const std::vector<std::string>& text) {
  const TemporaryFolder folder("verify");
  const auto ours = folder.path() / "ours.safetensors", answer = folder.path() / "answer.json";
  write_engine_logits(model, ours, written.model.max_position_embeddings, text);
  const int code = run_peer("kha-hf-peer", {exported.string(), ours.string(), answer.string()});
  if (code != 0) fail_peer("kha-hf-peer", code);
  Json found = read_answer(answer);
  const double limit = limit_of(found, written.rounded ? storage_factor(written.model.dtype) : 1);
  // Two tokens may be nearer to each other than the difference allowed.
  const bool same_text = found.at("continuation_agrees") || found.at("gap").get<double>() <= limit;
  const bool equal = found.at("float32").get<double>() <= limit && same_text;
  found["limit"] = limit;
  found["equal"] = equal;
  return {equal, verdict(found, limit, equal), found};
}

}  // namespace kha::cli
