#include "core/data/file_list.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "core/store/file_errors.h"
#include "kha/core/error.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_look(const fs::path& path, const std::error_code& error) {
  fail_folder("cannot read the text path", path, error.value());
}

// The status behind links; a link to nothing, or one that leads back to itself, is not found.
fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error == std::errc::too_many_symbolic_link_levels) {
    return fs::file_status(fs::file_type::not_found);
  }
  if (error && status.type() != fs::file_type::not_found) fail_to_look(path, error);
  return status;
}

fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::canonical(path, error);
  if (error) fail_to_look(path, error);
  return result;
}

bool has_extension(const std::string& name, const std::vector<std::string>& extensions) {
  return extensions.empty() || std::ranges::any_of(extensions, [&](const std::string& extension) {
           return name.ends_with(extension.starts_with('.') ? extension : "." + extension);
         });
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  if (error) fail_to_look(folder, error);
  std::ranges::sort(entries, {},
                    [](const fs::path& path) -> const std::string& { return path.native(); });
  return entries;
}

// Walks one given folder. Which of two links to one folder is entered depends on their names only,
// as entries come sorted.
class FolderWalk {
 public:
  FolderWalk(const std::vector<std::string>& extensions, FileList& list)
      : extensions_(extensions), list_(list) {}

  void enter(const fs::path& folder, const std::string& prefix) {
    if (!entered_.insert(real_path(folder).native()).second) return;
    for (const fs::path& entry : sorted_entries(folder)) visit(entry, prefix);
  }

 private:
  void visit(const fs::path& entry, const std::string& prefix) {
    const std::string name = entry.filename().native();
    if (name.starts_with('.')) {
      ++list_.skipped.hidden;
      return;
    }
    const fs::file_status status = status_of(entry);
    if (fs::is_directory(status)) {
      enter(entry, prefix + name + "/");
    } else if (!fs::is_regular_file(status)) {
      ++list_.skipped.not_a_file;
    } else if (!has_extension(name, extensions_)) {
      ++list_.skipped.other_extension;
    } else {
      list_.files.push_back({prefix + name, entry, false});
    }
  }

  const std::vector<std::string>& extensions_;
  FileList& list_;
  std::set<std::string> entered_;
};

void add_given(const std::string& given, const std::vector<std::string>& extensions,
               FileList& list) {
  const fs::path path(given);
  const fs::file_status status = status_of(path);
  if (!fs::exists(status)) {
    fail({.what = "the text path does not exist",
          .where = given,
          .expected = "a text file or a folder of text files",
          .cause = "a typing error, or a path relative to another folder",
          .next = "look for it: ls -ld '" + given + "'"});
  }
  if (fs::is_directory(status)) {
    FolderWalk(extensions, list).enter(path, "");
  } else if (fs::is_regular_file(status)) {
    list.files.push_back({path.filename().native(), path, true});
  } else {
    fail({.what = "the text path is neither a file nor a folder",
          .where = given,
          .expected = "a text file or a folder of text files",
          .found = "a pipe, socket or device",
          .next = "save the text to a file and give that file"});
  }
}

// One file must not be two documents: a held-out copy would leak into training.
void drop_repeated(FileList& list) {
  std::set<std::string> seen;
  list.skipped.repeated =
      static_cast<std::int64_t>(std::erase_if(list.files, [&](const ListedFile& file) {
        return !seen.insert(real_path(file.file).native()).second;
      }));
}

}  // namespace

FileList list_files(const TextSourceOptions& options) {
  if (options.paths.empty()) {
    fail({.what = "no text was given",
          .expected = "at least one text file or folder",
          .next = "name files or folders of text in the data paths"});
  }
  FileList list;
  for (const std::string& given : options.paths) add_given(given, options.extensions, list);
  // Stable, so that files of equal relative path keep the order in which their folders were given.
  std::ranges::stable_sort(list.files, {}, &ListedFile::relative_path);
  drop_repeated(list);
  return list;
}

}  // namespace kha
