// compare.json and the words of a comparison.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kha/core/atomic_file.h"
#include "kha/core/progress.h"
#include "train/compare.h"

namespace kha {
namespace {

nlohmann::ordered_json to_json(const Arm& arm, const std::filesystem::path& folder) {
  const Evaluation& e = *arm.summary.validation;
  return {{"setting", arm.setting},
          {"seed", arm.seed},
          {"run", std::filesystem::relative(arm.run, folder).string()},
          {"val_loss", e.loss()},
          {"bits_per_byte", e.bits_per_byte()},
          {"targets", e.targets},
          {"documents", e.documents.size()},
          {"parameters", arm.parameters},
          {"knock_parameters", arm.knock_parameters},
          {"flops_per_token", arm.flops},
          {"knock_flops_per_token", arm.knock_flops},
          {"tokens_per_second", arm.summary.tokens_per_second},
          {"mfu", arm.summary.mfu},
          {"peak_bytes", arm.summary.peak_bytes}};
}

std::string table_line(const Arm& arm) {
  const Evaluation& e = *arm.summary.validation;
  return fmt::format("{:<14}{:>5}{:>12.4f}{:>12.4f}{:>12}{:>10}{:>9.2f} %{:>11.0f}{:>7}{:>12}\n",
                     arm.setting, arm.seed, e.loss(), e.bits_per_byte(), arm.parameters,
                     fmt::format("+{}", arm.knock_parameters),
                     100 * arm.knock_flops / (arm.flops - arm.knock_flops),
                     arm.summary.tokens_per_second,
                     arm.summary.mfu > 0 ? fmt::format("{:.0f} %", 100 * arm.summary.mfu) : "-",
                     bytes_text(static_cast<double>(arm.summary.peak_bytes)));
}

std::string in_words(const ArmDifference& d, const std::string& reference) {
  const Interval& i = d.interval;
  const std::string figures =
      fmt::format("{:+.4f} nats a token, 95 % interval {:+.4f} to {:+.4f}", i.mean, i.low, i.high);
  const std::string verdict =
      !i.excludes_zero()
          ? fmt::format("no difference from {} is shown: 0 is inside the interval", reference)
      : i.mean < 0 ? fmt::format("lower loss than {}", reference)
                   : fmt::format("higher loss than {}", reference);
  return fmt::format("{}: {} ({})\n", d.setting, verdict, figures);
}

}  // namespace

void write_comparison(const Comparison& c) {
  nlohmann::ordered_json json{{"version", 1},
                              {"reference", c.reference},
                              {"shared_start", c.shared_start},
                              {"arms", nlohmann::json::array()},
                              {"differences", nlohmann::json::array()}};
  for (const Arm& arm : c.arms) json["arms"].push_back(to_json(arm, c.folder));
  for (const ArmDifference& d : c.differences) {
    json["differences"].push_back({{"setting", d.setting},
                                   {"mean", d.interval.mean},
                                   {"low", d.interval.low},
                                   {"high", d.interval.high},
                                   {"kind", d.covers}});
  }
  write_file_atomically(c.folder / "compare.json", json.dump(2) + "\n");
}

std::string to_text(const Comparison& c) {
  std::string text = fmt::format("{:<14}{:>5}{:>12}{:>12}{:>12}{:>10}{:>11}{:>11}{:>7}{:>12}\n",
                                 "setting", "seed", "val loss", "bits/byte", "parameters",
                                 "in maps", "map FLOPs", "tokens/s", "MFU", "peak");
  for (const Arm& arm : c.arms) text += table_line(arm);
  const Evaluation& first = *c.arms[0].summary.validation;
  text += fmt::format("\non {} held-out tokens of {} documents, the same in every arm:\n",
                      first.targets, first.documents.size());
  for (const ArmDifference& d : c.differences) text += "  " + in_words(d, c.reference);
  if (!c.differences.empty() && c.differences[0].covers == "documents") {
    text +=
        "The interval is over documents: it says how these two trained models differ on such text. "
        "It\n"
        "does not cover training noise; another seed may turn a small difference round. More "
        "seeds:\n"
        "--set compare.seeds=3\n";
  }
  return text;
}

}  // namespace kha
