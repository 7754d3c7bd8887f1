#include "core/store/written_files.h"

#include <sys/stat.h>

#include <cstdint>
#include <deque>
#include <mutex>

namespace kha {
namespace {

constexpr std::size_t most_remembered = 256;

struct Identity {
  dev_t device = 0;
  ino_t number = 0;
  off_t size = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // of the last change of content, name or rights
  bool operator==(const Identity&) const = default;
};

std::optional<Identity> identity_of(const std::filesystem::path& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  return Identity{state.st_dev, state.st_ino, state.st_size, state.st_ctim.tv_sec,
                  state.st_ctim.tv_nsec};
}

struct Written {
  Identity identity;
  FileReport report;
};

std::mutex mutex;
std::deque<Written> newest_last;

}  // namespace

void remember_written(const std::filesystem::path& path, const FileReport& report) {
  const auto identity = identity_of(path);
  if (!identity) return;
  const std::scoped_lock lock(mutex);
  newest_last.push_back({*identity, report});
  if (newest_last.size() > most_remembered) newest_last.pop_front();
}

std::optional<FileReport> report_of_written(const std::filesystem::path& path) {
  const auto identity = identity_of(path);
  const std::scoped_lock lock(mutex);
  for (auto each = newest_last.rbegin(); identity && each != newest_last.rend(); ++each) {
    if (each->identity == *identity) return each->report;
  }
  return std::nullopt;
}

}  // namespace kha
