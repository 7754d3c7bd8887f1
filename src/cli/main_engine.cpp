// `kha-engine`: the commands that need tensors.
#include "cli/commands.h"
#include "cli/program.h"
#include "kha/core/error.h"
#include "memory/caching_allocator.h"

int main(int argc, char** argv) {
  using namespace kha::cli;
  try {
    kha::choose_allocator("auto");
  } catch (const kha::Error& error) {
    return print_error(error);
  }
  return run_program(
      "kha", "knocking-heads attention, the part with tensors",
      {train_command(), compare_command(), generate_command(), eval_command(), diff_command(),
       logits_command(), doctor_engine_command(), bench_step_command()},
      argc, argv);
}
