// The subcommands of `kha` and `kha-engine`, one file each.
#pragma once

#include "cli/program.h"

namespace kha::cli {

// kha
Command fold_command();
Command convert_command();
Command export_command();
Command insert_command();
Command inspect_command();
Command plan_command();
Command doctor_command();
Command tokenizer_command();
Command data_command();

// kha-engine
Command train_command();
Command bench_step_command();
Command bench_decode_command();
Command bench_experts_command();
Command compare_command();
Command generate_command();
Command eval_command();
Command diff_command();
Command logits_command();
Command doctor_engine_command();

}  // namespace kha::cli
