#include "core/store/manifest.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/store/checkpoint_names.h"
#include "core/store/file_descriptor.h"
#include "core/store/file_errors.h"
#include "core/store/strict_json.h"
#include "core/store/wording.h"
#include "core/store/written_files.h"
#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "kha/core/fail_point.h"
#include "kha/core/mapped_file.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

constexpr int manifest_version = 1;

struct Contents {
  std::vector<fs::path> files;
  std::vector<fs::path> folders;  // the root among them
};

Contents contents_of(const fs::path& root) {
  Contents contents{.files = {}, .folders = {root}};
  std::error_code error;
  fs::recursive_directory_iterator entry(root, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const fs::file_status status = entry->symlink_status(error);
    if (fs::is_directory(status)) {
      contents.folders.push_back(entry->path());
    } else if (fs::is_regular_file(status)) {
      contents.files.push_back(entry->path());
    } else {
      fail({.what = "a checkpoint may hold only files and folders",
            .where = entry->path().string(),
            .found = "a link, pipe or device",
            .next = "copy the content into the checkpoint"});
    }
  }
  if (error) fail_folder("cannot read the folder of the checkpoint", root, error.value());
  std::sort(contents.files.begin(), contents.files.end());
  return contents;
}

void sync_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.get()) != 0) {
    fail_writing({.path = path, .error = errno, .wanted_bytes = 0, .written_bytes = 0});
  }
}

std::string manifest_text(const fs::path& root, const std::vector<fs::path>& files,
                          std::int64_t step) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const fs::path& file : files) {
    // Of what was meant to be written, where this process wrote it: nothing is read again.
    const auto known = report_of_written(file);
    const FileReport report = known ? *known : report_file(file);
    list.push_back({{"path", file.lexically_relative(root).generic_string()},
                    {"size", report.size},
                    {"xxh3", to_hex(report.checksum)}});
  }
  nlohmann::ordered_json manifest;
  manifest["version"] = manifest_version;
  manifest["step"] = step;
  manifest["files"] = std::move(list);
  return manifest.dump(1) + "\n";
}

// A path out of the checkpoint would let a manifest read any file.
bool stays_inside(const fs::path& path) {
  return path.is_relative() && !path.empty() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

Manifest manifest_from(const nlohmann::json& json) {
  Manifest manifest;
  manifest.step = json.at("step").get<std::int64_t>();
  for (const auto& entry : json.at("files")) {
    ManifestFile file;
    file.path = entry.at("path").get<std::string>();
    file.report.size = entry.at("size").get<std::uint64_t>();
    const auto hex = entry.at("xxh3").get<std::string>();
    file.report.checksum = std::stoull(hex, nullptr, 16);
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

ManifestOrFault fault(std::string text) {
  return {.manifest = std::nullopt, .fault = std::move(text)};
}

ManifestOrFault interpret(const nlohmann::json& json) {
  if (json.value("version", 0) != manifest_version) {
    return fault("its manifest has another version than " + std::to_string(manifest_version));
  }
  Manifest manifest = manifest_from(json);
  for (const ManifestFile& file : manifest.files) {
    if (!stays_inside(file.path)) {
      return fault("its manifest names a file outside the checkpoint: " + shown(file.path));
    }
  }
  if (manifest.files.empty()) return fault("its manifest names no file");
  return {.manifest = std::move(manifest), .fault = ""};
}

}  // namespace

void seal_folder(const fs::path& folder, std::int64_t step) {
  const Contents contents = contents_of(folder);
  if (contents.files.empty()) {
    fail({.what = "a checkpoint without files cannot be kept", .where = folder.string()});
  }
  const std::string text = manifest_text(folder, contents.files, step);
  for (const fs::path& file : contents.files) sync_file(file);
  maybe_fail("before-manifest");
  write_file_atomically(folder / manifest_name, text);
  for (const fs::path& inner : contents.folders) sync_folder(inner);
  maybe_fail("after-manifest");
}

ManifestOrFault read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  std::error_code error;
  if (!fs::exists(path, error)) return fault("incomplete: it has no MANIFEST.json");
  try {
    const MappedFile file = MappedFile::open(path);
    const auto bytes = file.bytes();
    return interpret(parse_strict_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                       path, "the manifest"));
  } catch (const Error& bad) {
    return fault("its MANIFEST.json cannot be read: " + bad.diagnosis().what);
  } catch (
      const std::exception&) {  // a key absent, of another type, or a checksum that is no number
    return fault("its MANIFEST.json is damaged: not a list of files with size and xxh3");
  }
}

std::optional<std::string> compare_with_manifest(const fs::path& folder, const Manifest& manifest,
                                                 bool checksums) {
  for (const ManifestFile& file : manifest.files) {
    std::error_code error;
    const std::uint64_t size = fs::file_size(folder / file.path, error);
    if (error) return "incomplete: " + shown(file.path) + " is absent";
    if (size != file.report.size) {
      return "size differs: " + shown(file.path) + " has " + std::to_string(size) +
             " bytes, the manifest says " + std::to_string(file.report.size);
    }
  }
  if (!checksums) return std::nullopt;
  for (const ManifestFile& file : manifest.files) {
    try {
      const std::uint64_t found = report_file(folder / file.path).checksum;
      if (found != file.report.checksum) {
        return "checksum differs: " + shown(file.path) + " is " + to_hex(found) +
               ", the manifest says " + to_hex(file.report.checksum);
      }
    } catch (const Error& bad) {
      return shown(file.path) + ": " + bad.diagnosis().what;
    }
  }
  return std::nullopt;
}

}  // namespace kha
