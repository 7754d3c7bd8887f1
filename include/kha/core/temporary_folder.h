// A folder for files that nobody keeps.
#pragma once

#include <filesystem>
#include <string>

namespace kha {

// A new folder in the system's place for temporary files (TMPDIR), removed with all that is in it
// when this object goes. Error: the folder cannot be made.
class TemporaryFolder {
 public:
  // `purpose` is part of its name: kha-PURPOSE-XXXXXX.
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kha
