#include "core/store/file_errors.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "kha/core/error.h"

namespace kha {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::optional<std::uint64_t> free_bytes(const std::filesystem::path& folder) {
  struct statvfs state {};
  if (::statvfs(folder.c_str(), &state) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(state.f_bavail) * state.f_frsize;
}

std::string space_found(const WriteFailure& failure) {
  const auto free = free_bytes(folder_of(failure.path));
  return (free ? std::to_string(*free) : std::string("an unknown number of")) +
         " bytes free there; the write stopped after " + std::to_string(failure.written_bytes) +
         " bytes";
}

std::string size_limit_found() {
  struct rlimit limit {};
  const bool known = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known
             ? "a file size limit of " + std::to_string(limit.rlim_cur) + " bytes for this process"
             : std::string("a file too large for its file system");
}

std::string wanted(const WriteFailure& failure) {
  return failure.wanted_bytes == 0 ? "more than " + std::to_string(failure.written_bytes) + " bytes"
                                   : std::to_string(failure.wanted_bytes) + " bytes";
}

constexpr const char* intact = "nothing was changed under this name; ";

Diagnosis disk_full(const WriteFailure& failure) {
  return {
      .what = "the disk is full",
      .where = failure.path.string(),
      .expected = "room for " + wanted(failure),
      .found = space_found(failure),
      .next = std::string(intact) + "free some space or write to another disk, then run it again"};
}

Diagnosis quota_reached(const WriteFailure& failure) {
  Diagnosis diagnosis = disk_full(failure);
  diagnosis.what = "the disk quota of this user is used up";
  return diagnosis;
}

Diagnosis file_too_large(const WriteFailure& failure) {
  return {.what = "the file may not grow this large",
          .where = failure.path.string(),
          .expected = "room for " + wanted(failure),
          .found = size_limit_found() + "; " + space_found(failure),
          .cause = "a limit set with `ulimit -f`, or a file system made for small files",
          .next = std::string(intact) + "raise the limit (`ulimit -f unlimited`) and run it again"};
}

Diagnosis not_permitted(const WriteFailure& failure) {
  return {.what = "no permission to write the file",
          .where = failure.path.string(),
          .cause = "this user may not create files in " + folder_of(failure.path).string(),
          .next = std::string(intact) + "change the folder's permissions or write somewhere else"};
}

Diagnosis read_only(const WriteFailure& failure) {
  return {.what = "the file system is read-only",
          .where = failure.path.string(),
          .next = std::string(intact) + "write somewhere else or remount it for writing"};
}

Diagnosis no_folder(const WriteFailure& failure) {
  return {.what = "cannot write the file: its folder does not exist",
          .where = failure.path.string(),
          .expected = "an existing folder " + folder_of(failure.path).string(),
          .next = "create it: mkdir -p " + folder_of(failure.path).string()};
}

}  // namespace

void fail_reading(const std::filesystem::path& path, int error) {
  if (error == EACCES || error == EPERM) {
    fail({.what = "no permission to read the file",
          .where = path.string(),
          .next = "change its permissions (chmod u+r) or run as its owner"});
  }
  fail({.what = "cannot read the file",
        .where = path.string(),
        .found = std::strerror(error),
        .cause = error == EIO ? "the disk or its connection is failing" : ""});
}

void fail_writing(const WriteFailure& failure) {
  switch (failure.error) {
    case ENOSPC:
      fail(disk_full(failure));
    case EDQUOT:
      fail(quota_reached(failure));
    case EFBIG:
      fail(file_too_large(failure));
    case EACCES:
    case EPERM:
      fail(not_permitted(failure));
    case EROFS:
      fail(read_only(failure));
    case ENOENT:
    case ENOTDIR:
      fail(no_folder(failure));
    default:
      fail({.what = "cannot write the file",
            .where = failure.path.string(),
            .found = std::strerror(failure.error),
            .next = std::string(intact) + "repair the cause and run it again"});
  }
}

void fail_folder(const std::string& what, const std::filesystem::path& path, int error) {
  std::string next;
  if (error == EACCES || error == EPERM) next = "change the folder's permissions, or use another";
  if (error == ENOSPC) next = "free some space and run it again";
  if (error == EROFS) next = "the file system is read-only: use another folder";
  fail({.what = what, .where = path.string(), .found = std::strerror(error), .next = next});
}

}  // namespace kha
