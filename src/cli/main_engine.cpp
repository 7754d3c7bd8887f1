// `kha-engine`: the commands that need tensors.
#include "cli/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace kha::cli;
  return run_program(
      "kha", "knocking-heads attention, the part with tensors",
      {train_command(), compare_command(), generate_command(), eval_command(), diff_command(),
       logits_command(), doctor_engine_command(), bench_step_command()},
      argc, argv);
}
