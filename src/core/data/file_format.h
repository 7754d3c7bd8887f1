// How a data file is read, told by its name.
#pragma once

#include <string>

#include "kha/core/text_source.h"

namespace kha {

// By the ending: .jsonl, .jsonl.gz, .jsonl.zst, .txt.gz, .txt.zst, .parquet, .tokens, .bin; every
// other file is plain text.
FileFormat file_format(const std::string& name);

}  // namespace kha
