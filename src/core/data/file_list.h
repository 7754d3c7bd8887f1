// The files that a list of files and folders stands for, before any of them is read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/text_source.h"

namespace kha {

struct ListedFile {
  std::string relative_path;
  std::filesystem::path file;
  bool named = false;  // given itself, not found in a folder
};

struct FileList {
  std::vector<ListedFile> files;  // by relative path, bytewise
  SkippedFiles skipped;           // hidden, other_extension, not_a_file and repeated are counted
};

// Throws Error for a path that is missing, cannot be read, or is neither a file nor a folder.
FileList list_files(const TextSourceOptions& options);

}  // namespace kha
