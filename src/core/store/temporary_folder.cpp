#include "kha/core/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "kha/core/error.h"

namespace kha {

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  std::error_code bad_place;
  const auto place = std::filesystem::temp_directory_path(bad_place);
  std::string name = (place / ("kha-" + purpose + "-XXXXXX")).string();
  if (bad_place || mkdtemp(name.data()) == nullptr) {
    fail({.what = "cannot make a temporary folder",
          .where = bad_place ? "TMPDIR" : name,
          .found = bad_place ? bad_place.message() : std::strerror(errno),
          .next = "set TMPDIR to a folder that can be written"});
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kha
