#include "kha/core/checksum.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <new>
#include <vector>

#include "core/store/file_descriptor.h"
#include "core/store/file_errors.h"

namespace kha {
namespace {

XXH3_state_t* new_state() {
  XXH3_state_t* state = XXH3_createState();
  if (state == nullptr) throw std::bad_alloc();
  return state;
}

}  // namespace

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum128 xxh3_128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

std::string to_hex(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::string to_hex(const Checksum128& checksum) {
  return fmt::format("{:016x}{:016x}", checksum.high, checksum.low);
}

void ChecksumStream::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

ChecksumStream::ChecksumStream() : state_(new_state()) { XXH3_64bits_reset(state_.get()); }

void ChecksumStream::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t ChecksumStream::digest() const { return XXH3_64bits_digest(state_.get()); }

void ChecksumStream128::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

ChecksumStream128::ChecksumStream128() : state_(new_state()) { XXH3_128bits_reset(state_.get()); }

void ChecksumStream128::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Checksum128 ChecksumStream128::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {.high = hash.high64, .low = hash.low64};
}

FileReport report_file(const std::filesystem::path& path) {
  const FileDescriptor file = open_for_reading(path);
  std::vector<std::byte> part(std::size_t{1} << 20);
  ChecksumStream stream;
  FileReport report;
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(path, errno);
    if (got == 0) break;
    stream.update({part.data(), static_cast<std::size_t>(got)});
    report.size += static_cast<std::uint64_t>(got);
  }
  report.checksum = stream.digest();
  return report;
}

}  // namespace kha
