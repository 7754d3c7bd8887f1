// The parts of `kha tokenizer`, one file each.
#pragma once

#include "cli/program.h"

namespace kha::cli {

Command tokenizer_train_command();
Command tokenizer_encode_command();
Command tokenizer_decode_command();
Command tokenizer_verify_command();

}  // namespace kha::cli
