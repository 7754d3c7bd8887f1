// A folder that appears under its name complete, or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace kha {

// Files are written into folder(), a hidden folder beside the final one; commit() renames it.
// Without commit the hidden folder is removed; a kill leaves at most that one.
class NewFolder {
 public:
  // Errors: something stands under the name already (it is never replaced); the disk.
  explicit NewFolder(const std::filesystem::path& name);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  const std::filesystem::path& folder() const { return hidden_; }
  void commit();
  // Puts one file of it under the name instead; the rest is removed with this object.
  void commit_file(const std::string& file);

 private:
  void put_under_name(const std::filesystem::path& written) const;

  std::filesystem::path name_;
  std::filesystem::path hidden_;  // empty once committed
};

// Fails when something stands under the name, for a check before long work.
void require_free(const std::filesystem::path& name);

}  // namespace kha
