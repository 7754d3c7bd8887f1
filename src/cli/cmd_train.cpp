#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "train/interrupt.h"
#include "train/trainer.h"

namespace kha::cli {
namespace {

struct Arguments {
  RunArguments run;
  std::string resume = "auto";
  bool profile = false;
  int64_t profile_steps = 0;
};

void print_end(const RunConfig& config, const TrainReport& report) {
  const std::string folder = config.run_folder().string();
  const std::string latest = folder + "/checkpoints/latest";
  if (!report.finished) {
    fmt::print(
        "stopped by a signal at step {}; saved in {}\nnext: the same command goes on from there\n",
        report.step, latest);
    return;
  }
  fmt::print("{} {}: {} steps, {:.0f} tokens/s, model in {}\n",
             report.trained ? "trained" : "complete already:", config.run.name, report.step,
             report.summary.tokens_per_second, latest);
  fmt::print("next: kha inspect {0}\n      kha generate {0} --prompt 'def '\n", latest);
  if (config.model.knocks.any(config.model.num_hidden_layers))
    fmt::print("      kha fold {} --to {}/folded\n", latest, folder);
}

int64_t profile_steps(const Arguments& arguments) {
  constexpr int64_t a_few = 3;
  if (arguments.profile_steps > 0) return arguments.profile_steps;
  return arguments.profile ? a_few : 0;
}

int run(const Arguments& arguments) {
  const RunConfig config = read_run(arguments.run);
  if (arguments.run.print_config) {
    print_config(config);
    return 0;
  }
  print_chosen(config, "");
  if (arguments.run.dry_run) {
    print_plan(config);
    return 0;
  }
  const TrainReport report = train({.config = config,
                                    .resume = parse_resume(arguments.resume),
                                    .label = {},
                                    .profile_steps = profile_steps(arguments)});
  const bool drawn =
      !report.trained && std::filesystem::exists(config.run_folder() / "report.html");
  if (report.finished && config.run.report && !drawn) make_report(config.run_folder());
  print_end(config, report);
  return report.finished ? 0 : interrupt_exit_code();
}

}  // namespace

Command train_command() {
  return {"train", "train one model", [](CLI::App& app) {
            auto arguments = std::make_shared<Arguments>();
            add_run_options(app, arguments->run);
            app.add_option(
                   "--resume", arguments->resume,
                   "auto: go on from the newest checkpoint; none: refuse when there is one; or a "
                   "step folder")
                ->capture_default_str();
            app.add_flag("--profile", arguments->profile,
                         "record where the time of a few steps goes: a table, and a trace in the "
                         "run's folder");
            app.add_option("--profile-steps", arguments->profile_steps,
                           "record so many steps (3 with --profile alone)")
                ->check(CLI::Range(1, 1000));
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace kha::cli
