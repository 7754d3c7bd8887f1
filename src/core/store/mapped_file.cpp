#include "kha/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/store/file_descriptor.h"
#include "core/store/file_errors.h"
#include "core/store/mapping_table.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

// Enough to find a mistyped name without reading a folder of a million entries.
constexpr std::size_t most_neighbours = 1000;

std::vector<std::string> neighbours(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error), end;
  while (!error && entry != end && names.size() < most_neighbours) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  return names;
}

[[noreturn]] void fail_missing(const std::filesystem::path& path) {
  std::error_code error;
  const auto folder = path.parent_path();
  const bool no_folder = !folder.empty() && !std::filesystem::is_directory(folder, error);
  const std::string hint = did_you_mean(path.filename().string(), neighbours(path));
  fail({.what = "there is no such file" + hint,
        .where = path.string(),
        .cause = no_folder ? "the folder " + folder.string() + " does not exist either" : "",
        .next = "check the path"});
}

}  // namespace

FileDescriptor open_for_reading(const std::filesystem::path& path) {
  // Non-blocking, since opening a pipe without a writer would wait for ever.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open() && (errno == ENOENT || errno == ENOTDIR)) fail_missing(path);
  if (!file.is_open()) fail_reading(path, errno);
  struct stat state {};
  if (::fstat(file.get(), &state) != 0) fail_reading(path, errno);
  if (S_ISDIR(state.st_mode)) {
    fail({.what = "expected a file, but this is a folder",
          .where = path.string(),
          .next = "give a file inside it"});
  }
  if (!S_ISREG(state.st_mode)) {
    fail({.what = "expected a regular file, but this is a device, pipe or socket",
          .where = path.string(),
          .next = "copy the data to a file and give that one"});
  }
  return file;
}

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const FileDescriptor file = open_for_reading(path);
  struct stat state {};
  if (::fstat(file.get(), &state) != 0) fail_reading(path, errno);
  const auto size = static_cast<std::size_t>(state.st_size);
  if (size == 0) return MappedFile(path, {});
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) fail_reading(path, errno);
  const std::span bytes(static_cast<const std::byte*>(start), size);
  remember_mapping(bytes, path);
  return MappedFile(path, bytes);
}

void MappedFile::let_go(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end = (begin + part.size()) / page * page;
  // Advice: where it is not taken, the pages merely stay.
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

MappedFile::MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace kha
