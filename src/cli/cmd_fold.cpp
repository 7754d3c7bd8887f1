// kha fold: the maps folded into the projections beside them, proved by comparing the two models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/commands.h"
#include "cli/left_out.h"
#include "cli/proof.h"
#include "kha/core/fold.h"
#include "kha/core/model_folder.h"

namespace kha::cli {
namespace {

struct Options {
  std::string model;
  std::string to;
  FoldOptions fold;
  std::vector<std::string> text;  // of the comparison
  std::string limit;              // of the comparison
  bool no_verify = false;
  bool json = false;
};

ProofRequest proof_of(const Options& options) {
  return {.before = options.model,
          .after = options.to,
          .text = options.text,
          .limit = options.limit,
          .asked = !options.no_verify,
          .output_aside = options.json};
}

std::string outcome_text(const FoldedMap& map) {
  switch (map.outcome) {
    case FoldOutcome::folded:
      return "folded away";
    case FoldOutcome::became_gate:
      return "became a gate";
    case FoldOutcome::down_only:
      return "down folded, up and gate stay";
    case FoldOutcome::kept:
      return "stays";
  }
  return "";
}

// Maps of one kind, slot and outcome are one line, with the range of their condition numbers.
struct Group {
  int64_t count = 0;
  double least = INFINITY;
  double most = 0;
  std::string reason;
};
using GroupKey = std::tuple<KnockSlot, KnockKind, FoldOutcome>;

std::map<GroupKey, Group> grouped(const FoldReport& report) {
  std::map<GroupKey, Group> groups;
  for (const FoldedMap& map : report.maps) {
    Group& group = groups[{map.slot, map.before, map.outcome}];
    ++group.count;
    group.reason = map.reason;
    if (!map.condition) continue;
    group.least = std::min(group.least, *map.condition);
    group.most = std::max(group.most, *map.condition);
  }
  return groups;
}

std::string group_line(const GroupKey& key, const Group& group, double limit) {
  const auto [slot, kind, outcome] = key;
  std::string line = fmt::format("  {} on {}: {} in {} layer{}", to_string(kind), to_string(slot),
                                 outcome_text({.layer = 0,
                                               .slot = slot,
                                               .before = kind,
                                               .after = kind,
                                               .outcome = outcome,
                                               .condition = {},
                                               .reason = {}}),
                                 group.count, group.count == 1 ? "" : "s");
  if (group.most > 0) {
    line += fmt::format("; condition number of up {:.4g} to {:.4g}, limit {:g}", group.least,
                        group.most, limit);
  } else if (outcome == FoldOutcome::kept) {
    line += ": " + group.reason;
  }
  return line;
}

void print_report(const Options& options, const FoldReport& report) {
  for (const auto& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("folded {}\n", options.model);
  for (const auto& [key, group] : grouped(report)) {
    fmt::print("{}\n", group_line(key, group, report.condition_limit));
  }
  print_left_out(report.left_out);
  fmt::print("wrote {}: {}\n", options.to,
             report.after.plain()
                 ? "a plain " + report.after.base_type() + " model"
                 : std::string(report.after.knocks.any(report.after.num_hidden_layers)
                                   ? "a kha model with the maps that stay"
                                   : "a kha model without maps"));
}

nlohmann::ordered_json map_json(const FoldedMap& map) {
  static const char* const outcomes[] = {"folded", "became_gate", "down_only", "kept"};
  nlohmann::ordered_json json{{"layer", map.layer},
                              {"slot", to_string(map.slot)},
                              {"before", to_string(map.before)},
                              {"after", to_string(map.after)},
                              {"outcome", outcomes[static_cast<size_t>(map.outcome)]},
                              {"condition", nullptr},
                              {"reason", map.reason}};
  if (map.condition && std::isfinite(*map.condition)) json["condition"] = *map.condition;
  return json;
}

void print_json(const Options& options, const FoldReport& report, const Proof& proof) {
  nlohmann::ordered_json json{{"model", options.model},
                              {"to", options.to},
                              {"plain", report.after.plain()},
                              {"condition_limit", nullptr},
                              {"maps", nlohmann::ordered_json::array()},
                              {"warnings", report.warnings},
                              {"copied", report.copied},
                              {"left_out", report.left_out},
                              {"verification", to_string(proof.verdict)}};
  if (std::isfinite(report.condition_limit)) json["condition_limit"] = report.condition_limit;
  for (const FoldedMap& map : report.maps) json["maps"].push_back(map_json(map));
  fmt::print("{}\n", json.dump(2));
}

int run(Options options) {
  options.model = resolve_model_folder(options.model).string();
  const FoldReport report = fold_model(options.model, options.to, options.fold);
  if (!options.json) print_report(options, report);
  const ProofRequest request = proof_of(options);
  const Proof proof = prove_equal(request);
  if (options.json) print_json(options, report, proof);
  if (!options.json || !proof.good()) print_verdict(request, proof.verdict, "folded");
  if (proof.good() && !options.json) fmt::print("next: kha inspect {}\n", options.to);
  return proof.exit_code;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a model folder, or a run (its latest checkpoint)")
      ->required();
  app.add_option("--to", options->to, "the new folder")->required();
  app.add_option("--condition-limit", options->fold.condition_limit,
                 "keep `up` of an mlp map above this condition number")
      ->capture_default_str();
  app.add_option("--text", options->text,
                 "a text file or folder to compare both models on; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--limit", options->limit, "largest difference of logits that passes");
  app.add_flag("--no-verify", options->no_verify, "do not compare the two models");
  add_json_option(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace

Command fold_command() { return {"fold", "fold the maps into the projections beside them", add}; }

}  // namespace kha::cli
