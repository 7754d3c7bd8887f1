#include "kha/core/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <system_error>

#include "kha/core/error.h"

namespace kha {
namespace {

const std::string prefix = "events.out.tfevents.";

// Protobuf, the few parts that an event needs: a field is its key (number * 8 + wire type), then
// its value.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class Integer>
void put_little_endian(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_integer(std::string& out, int field, std::int64_t value) {
  put_varint(out, field << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_double(std::string& out, int field, double value) {
  put_varint(out, field << 3 | 1);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_float(std::string& out, int field, float value) {
  put_varint(out, field << 3 | 5);
  put_little_endian(out, std::bit_cast<std::uint32_t>(value));
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string begin_event(std::int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_double(event, 1, std::chrono::duration<double>(now).count());
  put_integer(event, 2, step);
  return event;
}

std::string version_event() {
  std::string event = begin_event(0);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

// SessionLog: status = 1, START = 1.
std::string restart_event(std::int64_t step) {
  std::string event = begin_event(step), log;
  put_integer(log, 1, 1);
  put_bytes(event, 7, log);
  return event;
}

// Summary: value = 1; Value: tag = 1, simple_value = 2.
std::string scalars_event(std::int64_t step,
                          const std::vector<std::pair<std::string, double>>& scalars) {
  std::string event = begin_event(step), summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_float(value, 2, static_cast<float>(number));
    put_bytes(summary, 1, value);
  }
  put_bytes(event, 5, summary);
  return event;
}

// A checksum of data that hold checksums themselves is stored rotated and shifted.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u;
}

std::string record_of(std::string_view data) {
  std::string record;
  put_little_endian(record, std::uint64_t{data.size()});
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

// The clock in seconds, or one more than the latest file's: names decide the order of reading.
std::int64_t time_of_new_file(const std::filesystem::path& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t time = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    time = std::max<std::int64_t>(time, std::atoll(name.c_str() + prefix.size()) + 1);
  }
  return time;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return *name ? name : "host";
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path) {
  fail({.what = "cannot write the run's TensorBoard events",
        .where = path.string(),
        .cause = "the disk is full, or the folder is read-only or gone",
        .next = "mend that and give the same command again, or go without them: "
                "--set train.tensorboard=false"});
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_to_write(folder);
  path_ = folder /
          fmt::format("{}{:010}.{}.{}", prefix, time_of_new_file(folder), host_name(), getpid());
  file_.open(path_, std::ios::binary);
  append(version_event());
  append(restart_event(first_step));
}

void EventFile::write(std::int64_t step,
                      const std::vector<std::pair<std::string, double>>& scalars) {
  append(scalars_event(step, scalars));
}

void EventFile::append(std::string_view event) {
  file_ << record_of(event) << std::flush;
  if (!file_) fail_to_write(path_);
}

}  // namespace kha
