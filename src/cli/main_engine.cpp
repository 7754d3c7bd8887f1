// `kha-engine`: the commands that need tensors.
#include <c10/util/Exception.h>

#include "cli/cmd_score.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "kha/core/error.h"
#include "kha/ops/cpu_implementation.h"
#include "memory/caching_allocator.h"

namespace {

// KHA_CPU is read at the first map: a wrong name should stop the program before that.
void check_cpu_choice() {
  try {
    kha::ops::cpu_implementation();
  } catch (const c10::Error& error) {
    kha::fail({.what = "the CPU kernels cannot be chosen",
               .where = "the environment variable KHA_CPU",
               .found = error.what_without_backtrace(),
               .next = "unset KHA_CPU, or set it to one of the names above"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kha::cli;
  try {
    kha::choose_allocator("auto");
    check_cpu_choice();
  } catch (const kha::Error& error) {
    return print_error(error);
  }
  return run_program("kha", "knocking-heads attention, the part with tensors",
                     {train_command(), compare_command(), generate_command(), eval_command(),
                      diff_command(), logits_command(), score_command(), doctor_engine_command(),
                      bench_step_command(), bench_decode_command(), bench_experts_command()},
                     argc, argv);
}
