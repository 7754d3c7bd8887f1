// Opens, reads, saves and changes model files at bench/files.py's word: one command a line, one
// JSON object a line back. What the operating system does with the same bytes is here too, so that
// both stand in one process behind the same memory.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "kha/core/error.h"
#include "kha/core/export.h"
#include "kha/core/fold.h"
#include "kha/core/insert.h"
#include "kha/core/model_files.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t plain_part = std::size_t{16} << 20;  // a call of read or write

long minor_faults() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

double cpu_seconds() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::uint64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// Touched once and kept, so that no job pays for its first use.
std::vector<char>& memory(std::size_t bytes) {
  static std::vector<char> kept;
  for (std::size_t i = kept.size(); i < bytes; i = kept.size()) {
    kept.push_back(static_cast<char>(i * 2654435761u >> 13));
  }
  return kept;
}

// A job's time, its page faults and by how much it raised the resident memory at its highest.
Json timed(const std::function<void()>& job) {
  std::ofstream("/proc/self/clear_refs") << "5";
  const std::uint64_t resident = status_bytes("VmRSS:");
  const long faults = minor_faults();
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  job();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {{"seconds", seconds.count()},
          {"cpu_seconds", cpu_seconds() - cpu},
          {"faults", minor_faults() - faults},
          {"peak_bytes", status_bytes("VmHWM:") - resident}};
}

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    check(fd_);
  }
  ~File() { ::close(fd_); }

  std::size_t read(char* to, std::size_t bytes) { return check(::read(fd_, to, bytes)); }
  void write(const char* from, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      done += check(::write(fd_, from + done, std::min(plain_part, bytes - done)));
    }
  }
  void sync() { check(::fsync(fd_)); }

 private:
  static std::size_t check(ssize_t result) {
    if (result < 0) throw std::runtime_error(std::strerror(errno));
    return static_cast<std::size_t>(result);
  }
  int fd_;
};

void write_plainly(const std::string& path, std::size_t bytes) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  file.write(memory(bytes).data(), bytes);
  file.sync();
}

void read_plainly(const std::string& path, std::size_t bytes) {
  File file(path, O_RDONLY);
  char* to = memory(bytes).data();
  while (const std::size_t got = file.read(to, std::min(plain_part, bytes))) {
    to += got;
    bytes -= got;
  }
}

void copy_plainly(const fs::path& from, const fs::path& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    File in(entry.path(), O_RDONLY), out(to / entry.path().filename(), O_WRONLY | O_CREAT);
    char* part = memory(plain_part).data();
    while (const std::size_t got = in.read(part, plain_part)) out.write(part, got);
    out.sync();
  }
}

// Each tensor by its name into memory of its own, as a model is loaded.
void read_tensors(const std::string& path) {
  const kha::ModelFiles files = kha::ModelFiles::open(path);
  std::vector<std::unique_ptr<std::byte[]>> tensors;
  for (const std::string& name : files.names()) {
    const auto tensor = files.bytes(name);
    tensors.push_back(std::make_unique_for_overwrite<std::byte[]>(tensor.size()));
    std::memcpy(tensors.back().get(), tensor.data(), tensor.size());
  }
}

void save_tensors(const std::string& path, std::size_t count, std::size_t bytes) {
  std::vector<kha::TensorSpec> specs;
  for (std::size_t i = 0; i < count; ++i) {
    specs.push_back({"model.layers." + std::to_string(i) + ".self_attn.q_proj.weight",
                     kha::DType::f32,
                     {static_cast<std::int64_t>(bytes / 4)}});
  }
  kha::SafetensorsWriter writer(path, specs);
  const std::span<const char> all(memory(count * bytes));
  for (std::size_t i = 0; i < count; ++i) {
    writer.write(specs[i].name, std::as_bytes(all.subspan(i * bytes, bytes)));
  }
  writer.finish();
}

void insert(const std::string& in, const std::string& out, std::uint64_t shard_size) {
  kha::InsertOptions options;
  options.shard_size = shard_size;
  for (const auto slot : kha::knock_slots) options.knocks.at(slot) = kha::KnockKind::linear;
  kha::insert_maps(in, out, options);
}

void export_as(const std::string& in, const std::string& out, std::uint64_t shard_size,
               const std::string& dtype) {
  kha::ExportOptions options;
  options.shard_size = shard_size;
  if (dtype != "stored") options.dtype = kha::dtype_from_safetensors(dtype);
  kha::export_to_hugging_face(in, out, options);
}

Json answer(std::istream& words) {
  std::string job, path, other, dtype;
  std::size_t count = 0, bytes = 0;
  words >> job >> path;
  if (job == "open") return timed([&] { kha::ModelFiles::open(path); });
  if (job == "fold" || job == "insert" || job == "copy" || job == "export") {
    words >> other >> bytes >> dtype;
    return timed([&] {
      if (job == "fold") kha::fold_model(path, other, {});
      if (job == "insert") insert(path, other, bytes);
      if (job == "copy") copy_plainly(path, other);
      if (job == "export") export_as(path, other, bytes, dtype);
    });
  }
  words >> bytes >> count;
  memory(bytes * std::max<std::size_t>(count, 1));
  return timed([&] {
    if (job == "read") read_tensors(path);
    if (job == "save") save_tensors(path, count, bytes);
    if (job == "write-plain") write_plainly(path, bytes);
    if (job == "read-plain") read_plainly(path, bytes);
  });
}

}  // namespace

int main() {
  std::puts("{}");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    try {
      std::cout << answer(words).dump() << std::endl;
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      return 1;
    }
  }
}
