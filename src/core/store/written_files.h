// What this process has written, so that sealing a checkpoint reads none of it again.
#pragma once

#include <filesystem>
#include <optional>

#include "kha/core/checksum.h"

namespace kha {

// Remembers the report of a file that stands under its final name now.
void remember_written(const std::filesystem::path& path, const FileReport& report);

// That report, while the file is as it was then: same file, same size, unchanged since (its change
// time says so). Nothing where another hand wrote it, or it is long ago.
std::optional<FileReport> report_of_written(const std::filesystem::path& path);

}  // namespace kha
