// Data files: which files, in which order, and a fingerprint of it all.
//
// A file is known by its relative path: the path below the folder it was found in, or the plain
// file name of a file named itself. Files are ordered by these paths bytewise, so order and
// fingerprint are the same on every machine and wherever the folders lie. Plain text is one
// document a file; other forms, told by the file's name, hold many.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kha/core/checksum.h"

namespace kha {

enum class FileContent {
  text,     // the file is one document
  lines,    // JSON lines, a document each
  parquet,  // rows, a document each
  shard,    // ids with kha's header (kha/core/token_shard.h)
  raw_ids,  // ids of two or four bytes, without a header
};

enum class Compression { none, gzip, zstd };

struct FileFormat {
  FileContent content = FileContent::text;
  Compression compression = Compression::none;
  bool operator==(const FileFormat&) const = default;
};

struct TextDocument {
  std::string relative_path;
  std::filesystem::path file;
  std::uint64_t size = 0;  // bytes of the file, at least 1
  Checksum128 contents;    // XXH3-128 of the file
  FileFormat format = {};
};

// Files of the folders that did not become documents.
struct SkippedFiles {
  std::int64_t empty = 0;   // nothing in them, or blanks only
  std::int64_t binary = 0;  // a NUL byte in them
  std::int64_t other_extension = 0;
  std::int64_t hidden = 0;      // files and whole folders whose name starts with a dot
  std::int64_t not_a_file = 0;  // pipes, sockets, devices, links to nothing
  std::int64_t repeated = 0;    // the same file reached a second time
};

struct TextSource {
  std::vector<TextDocument> documents;
  SkippedFiles skipped;
  std::uint64_t total_bytes = 0;
  // XXH3-128, 32 hex digits, over every document in order: its relative path and a NUL byte, its
  // size as u64, the high and low u64 of the XXH3-128 of its contents.
  std::string fingerprint;
};

struct TextSourceOptions {
  std::vector<std::string> paths;
  // Which files of folders are taken, as "txt" or ".txt"; empty takes all. A file named in `paths`
  // is taken whatever its extension.
  std::vector<std::string> extensions;
};

// Called now and then with the bytes read so far.
using ReadProgress = std::function<void(std::uint64_t bytes_read)>;

// Reads every file once; memory does not grow with their sizes. Folders are entered recursively,
// links followed, each folder once. Throws Error when a path is missing, unreadable, not a file or
// folder; a named file is empty or binary; a folder has no usable text; a file cannot be read.
TextSource collect_text(const TextSourceOptions& options, const ReadProgress& progress = {});

// Calls `use` with the contents of a file in pieces of at most 1 MiB. Throws Error when it cannot
// be read.
void read_in_pieces(const std::filesystem::path& file,
                    const std::function<void(std::string_view piece)>& use);

}  // namespace kha
