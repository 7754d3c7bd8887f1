#include "kha/core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/store/file_descriptor.h"
#include "core/store/file_errors.h"
#include "core/store/written_files.h"
#include "kha/core/error.h"

namespace kha {
namespace {

// Small writes are gathered. Large ones go in parts that stay in a core's cache between the
// checksum and the system's copy, so that memory is read once for both.
constexpr std::size_t buffer_bytes = std::size_t{256} << 10;
// The disk starts on this much while the rest is still coming, not at the sync.
constexpr std::uint64_t ahead_bytes = std::uint64_t{8} << 20;

// The file that will be replaced: links are followed, so that the link itself stays.
std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real;
}

std::filesystem::path temporary_beside(const std::filesystem::path& target) {
  static std::atomic<unsigned> count{0};
  const std::string name = "." + target.filename().string() + "." + std::to_string(::getpid()) +
                           "." + std::to_string(count++) + ".partial";
  return target.parent_path() / name;
}

// EINVAL and ENOTSUP come from devices, pipes and file systems that have nothing to sync.
bool sync_descriptor(int fd) {
  while (::fsync(fd) != 0) {
    if (errno == EINVAL || errno == ENOTSUP) return true;
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

struct FileSink::State {
  std::filesystem::path path;  // as the user gave it
  std::filesystem::path target;
  std::filesystem::path temporary;  // empty: written directly, or renamed already
  std::uint64_t expected = 0;
  std::uint64_t taken = 0;
  std::uint64_t written = 0;
  std::uint64_t started = 0;  // bytes that the disk has been told to write
  FileDescriptor file;
  std::vector<std::byte> buffer;
  ChecksumStream checksum;
  bool usable = true;

  void open();
  void flush();
  void write_through(std::span<const std::byte> bytes);
  void write_large(std::span<const std::byte> bytes);
  void start_writing();
  void rename_into_place();
  void abandon();
  [[noreturn]] void give_up(int error);

  ~State() { abandon(); }
};

void FileSink::State::open() {
  struct stat found {};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) {
    fail({.what = "cannot write the file: a folder has this name",
          .where = path.string(),
          .next = "give a file name inside the folder, or another name"});
  }
  if (exists && !S_ISREG(found.st_mode)) {
    file = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    target = target_of(path);
    temporary = temporary_beside(target);
    ::unlink(temporary.c_str());  // of an earlier process that had the same number
    file = FileDescriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  }
  if (!file.is_open()) {
    const int error = errno;
    temporary.clear();
    give_up(error);
  }
}

void FileSink::State::write_through(std::span<const std::byte> bytes) {
  checksum.update(bytes);
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) give_up(errno);
    written += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void FileSink::State::flush() {
  write_through(buffer);
  buffer.clear();
  start_writing();
}

void FileSink::State::write_large(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), buffer_bytes);
    write_through(bytes.first(count));
    bytes = bytes.subspan(count);
    start_writing();
  }
}

void FileSink::State::start_writing() {
  if (temporary.empty() || written - started < ahead_bytes) return;
  // Advice: where the file system has no such call, the sync in the end does it all.
  ::sync_file_range(file.get(), static_cast<off_t>(started), static_cast<off_t>(written - started),
                    SYNC_FILE_RANGE_WRITE);
  started = written;
}

void FileSink::State::rename_into_place() {
  if (temporary.empty()) return;
  if (::rename(temporary.c_str(), target.c_str()) != 0) give_up(errno);
  temporary.clear();
  sync_folder(target.has_parent_path() ? target.parent_path() : std::filesystem::path("."));
}

void FileSink::State::abandon() {
  file.close();
  if (!temporary.empty()) ::unlink(std::exchange(temporary, {}).c_str());
}

void FileSink::State::give_up(int error) {
  usable = false;
  abandon();
  fail_writing({.path = path, .error = error, .wanted_bytes = expected, .written_bytes = written});
}

FileSink::FileSink(const std::filesystem::path& path, std::uint64_t expected_bytes)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->expected = expected_bytes;
  state_->open();
}

FileSink::FileSink(FileSink&&) noexcept = default;
FileSink& FileSink::operator=(FileSink&&) noexcept = default;
FileSink::~FileSink() = default;

void FileSink::write(std::span<const std::byte> bytes) {
  State& state = *state_;
  assert(state.usable && "write after finish or after a failed write");
  state.taken += bytes.size();
  if (state.buffer.size() + bytes.size() > buffer_bytes) state.flush();
  if (bytes.size() >= buffer_bytes) return state.write_large(bytes);
  state.buffer.insert(state.buffer.end(), bytes.begin(), bytes.end());
}

void FileSink::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

std::uint64_t FileSink::size() const { return state_->taken; }

FileReport FileSink::finish() {
  State& state = *state_;
  assert(state.usable && "finish twice or after a failed write");
  state.flush();
  if (!sync_descriptor(state.file.get())) state.give_up(errno);
  if (!state.file.close()) state.give_up(errno);
  state.rename_into_place();
  state.usable = false;
  const FileReport report{.size = state.taken, .checksum = state.checksum.digest()};
  if (!state.target.empty()) remember_written(state.target, report);
  return report;
}

FileReport write_file_atomically(const std::filesystem::path& path,
                                 std::span<const std::byte> bytes) {
  FileSink sink(path, bytes.size());
  sink.write(bytes);
  return sink.finish();
}

FileReport write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() || !sync_descriptor(file.get())) {
    fail_folder("cannot sync the folder", folder, errno);
  }
}

}  // namespace kha
