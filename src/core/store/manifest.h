// MANIFEST.json: every file of a checkpoint with its size and checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kha/core/checksum.h"

namespace kha {

struct ManifestFile {
  std::string path;  // relative to the checkpoint, with '/'
  FileReport report;
};

struct Manifest {
  std::int64_t step = 0;
  std::vector<ManifestFile> files;  // by path
};

// Lists every file below `folder` in MANIFEST.json there, then syncs all of it. Files that this
// process did not write are read once for their checksum.
// Errors: no file, something that is neither file nor folder, those of the disk.
void seal_folder(const std::filesystem::path& folder, std::int64_t step);

// A manifest, or the fault in words ("incomplete: it has no MANIFEST.json").
struct ManifestOrFault {
  std::optional<Manifest> manifest;
  std::string fault;
};
ManifestOrFault read_manifest(const std::filesystem::path& folder);

// The first file that is absent or of another size or, with `checksums`, of other content.
std::optional<std::string> compare_with_manifest(const std::filesystem::path& folder,
                                                 const Manifest& manifest, bool checksums);

}  // namespace kha
