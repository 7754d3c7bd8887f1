#include <fmt/format.h>

#include <memory>

#include "cli/beside.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "train/compare.h"
#include "train/interrupt.h"

namespace kha::cli {
namespace {

void draw_curves(const Comparison& comparison) {
  const auto curves = program_beside("kha-curves");
  if (!curves) {
    fmt::print("no picture: kha-curves is not installed beside kha-engine\n");
    return;
  }
  std::fflush(stdout);
  run_child(*curves, {comparison.folder.string()});
}

// The arm worth looking at first: the lowest loss of those with maps.
const Arm* best_mapped_arm(const Comparison& comparison) {
  const Arm* best = nullptr;
  for (const Arm& arm : comparison.arms) {
    const bool better = !best || arm.summary.validation->loss() < best->summary.validation->loss();
    if (arm.knock_parameters > 0 && better) best = &arm;
  }
  return best;
}

// Each arm takes its maps from its setting, so those of the file mean nothing here; whether they
// are legal in the model should then not matter either.
RunConfig read_comparison(RunArguments arguments) {
  arguments.sets.insert(arguments.sets.begin(), "knock.setting=baseline");
  return read_run(arguments);
}

int run(const RunArguments& arguments) {
  const RunConfig config = read_comparison(arguments);
  if (arguments.print_config) {
    print_config(config);
    return 0;
  }
  print_chosen(config, "");
  if (arguments.dry_run) {
    for (const auto& line : describe_variants(config)) fmt::print("{}\n", line);
    print_plan(variants_of(config).front().config);
    return 0;
  }
  const Comparison comparison = compare(config);
  if (comparison.arms.empty()) {
    fmt::print(
        "stopped by a signal; the arms so far are saved in {}\nnext: the same command goes on from "
        "there\n",
        comparison.folder.string());
    return interrupt_exit_code();
  }
  write_comparison(comparison);
  fmt::print("\n{}\n", to_text(comparison));
  draw_curves(comparison);
  if (config.run.report) make_report(comparison.folder);
  const std::string folder = comparison.folder.string();
  fmt::print("figures: {}/compare.json   arms: {}/arms/\n", folder, folder);
  if (const Arm* best = best_mapped_arm(comparison)) {
    fmt::print("next: kha inspect {0}\n      kha fold {0} --to {1}/folded\n", best->run.string(),
               folder);
  }
  return 0;
}

}  // namespace

Command compare_command() {
  return {"compare", "train settings side by side: same data, order and seed", [](CLI::App& app) {
            auto arguments = std::make_shared<RunArguments>();
            add_run_options(app, *arguments);
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace kha::cli
