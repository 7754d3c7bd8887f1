// A POSIX file descriptor that is closed once.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <utility>

namespace kha {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // False when the system reports a write that failed late (errno says which).
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Opens a regular file; missing files, folders, devices and lacking permission are user errors.
FileDescriptor open_for_reading(const std::filesystem::path& path);

}  // namespace kha
