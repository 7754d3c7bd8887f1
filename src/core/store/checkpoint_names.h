// How the folders of a checkpoint store are called.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kha {

inline constexpr const char* manifest_name = "MANIFEST.json";

// "step-00000500"
std::string checkpoint_name(std::int64_t step);

// ".step-00000500.4711.partial", written by this process; `role` is "partial" or "removed".
std::string hidden_name(std::int64_t step, const std::string& role);

// While a checkpoint of a step replaces an older one of the same step, and the file system cannot
// exchange the two, it stands under this name: "step-00000500.new".
std::string replacing_name(std::int64_t step);

struct NamedFolder {
  std::int64_t step = 0;
  std::filesystem::path folder;
  bool replacing = false;  // a replacing_name
};

struct HiddenFolder {
  std::int64_t step = 0;
  pid_t process = 0;
  std::filesystem::path folder;
};

// By rising step; of one step the replacing folder, being newer, comes after the other.
std::vector<NamedFolder> checkpoint_folders(const std::filesystem::path& root);
std::vector<HiddenFolder> hidden_folders(const std::filesystem::path& root);

}  // namespace kha
