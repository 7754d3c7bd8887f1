#include "kha/core/text_source.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "core/data/file_format.h"
#include "core/data/file_list.h"
#include "core/store/file_errors.h"
#include "kha/core/error.h"

namespace kha {
namespace {

constexpr std::size_t piece_size = std::size_t{1} << 20;

enum class Kind { text, empty, binary };

struct Reading {
  Kind kind = Kind::empty;
  std::uint64_t size = 0;
  Checksum128 contents;
  std::uint64_t first_nul = 0;  // where kind is binary
};

bool is_blank(std::string_view piece) {
  return piece.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

// Only plain text can be judged by its bytes; of the other forms the documents are, when they are
// read.
Reading read_document(const std::filesystem::path& file, bool plain, const ReadProgress& progress,
                      std::uint64_t bytes_before) {
  Reading reading;
  ChecksumStream128 checksum;
  read_in_pieces(file, [&](std::string_view piece) {
    if (reading.kind == Kind::empty && !(plain && is_blank(piece))) reading.kind = Kind::text;
    const std::size_t nul = plain ? piece.find('\0') : std::string_view::npos;
    if (nul != std::string_view::npos && reading.kind != Kind::binary) {
      reading.kind = Kind::binary;
      reading.first_nul = reading.size + nul;
    }
    reading.size += piece.size();
    checksum.update(std::as_bytes(std::span(piece)));
    if (progress) progress(bytes_before + reading.size);
  });
  reading.contents = checksum.digest();
  return reading;
}

// In folders of other things a .bin file is seldom token ids: there it is taken as such only when
// extensions are asked for, and else skipped as the binary file that it is.
FileFormat format_of(const ListedFile& listed, const TextSourceOptions& options) {
  const FileFormat format = file_format(listed.relative_path);
  const bool wanted = listed.named || !options.extensions.empty();
  return format.content == FileContent::raw_ids && !wanted ? FileFormat{} : format;
}

// Files named themselves must be usable; those found in a folder are only counted.
void refuse_named(const ListedFile& listed, const Reading& reading) {
  if (reading.kind == Kind::empty) {
    fail({.what = "the text file has no text",
          .where = listed.file.string(),
          .found = reading.size == 0 ? "an empty file"
                                     : std::to_string(reading.size) + " bytes, all of them blanks",
          .next = "give a file with text"});
  }
  fail({.what = "the text file is binary",
        .where = listed.file.string() + ", byte " + std::to_string(reading.first_nul),
        .expected = "text without NUL bytes",
        .found = "a NUL byte",
        .cause = "not a text file, or text in UTF-16",
        .next = "give a text file; UTF-16 converts with: iconv -f UTF-16 -t UTF-8 '" +
                listed.file.string() + "'"});
}

void add_to_fingerprint(ChecksumStream128& fingerprint, const TextDocument& document) {
  const std::string& path = document.relative_path;
  fingerprint.update(std::as_bytes(std::span(path.c_str(), path.size() + 1)));
  const std::uint64_t numbers[] = {document.size, document.contents.high, document.contents.low};
  fingerprint.update(std::as_bytes(std::span(numbers)));
}

std::string count_skipped(const SkippedFiles& skipped) {
  std::string text;
  const auto add = [&](std::int64_t count, const char* kind) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  };
  add(skipped.empty, "empty");
  add(skipped.binary, "binary");
  add(skipped.other_extension, "with another extension");
  add(skipped.hidden, "hidden");
  add(skipped.not_a_file, "not a file");
  return text.empty() ? "no files" : "only files that are skipped: " + text;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

[[noreturn]] void fail_without_text(const TextSourceOptions& options, const SkippedFiles& skipped) {
  const bool filtered = skipped.other_extension > 0;
  fail({.what = "there is no text to read",
        .where = join(options.paths),
        .expected = options.extensions.empty()
                        ? "at least one text file"
                        : "at least one text file with extension " + join(options.extensions),
        .found = count_skipped(skipped),
        .next = filtered ? "check the list of extensions, or leave it out to take every text file"
                         : "give a folder that has text files"});
}

}  // namespace

void read_in_pieces(const std::filesystem::path& file,
                    const std::function<void(std::string_view piece)>& use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"),
                                                               &std::fclose);
  if (!stream) fail_reading(file, errno);
  const auto buffer = std::make_unique_for_overwrite<char[]>(piece_size);
  while (const std::size_t count = std::fread(buffer.get(), 1, piece_size, stream.get())) {
    use({buffer.get(), count});
  }
  if (std::ferror(stream.get())) fail_reading(file, errno);
}

TextSource collect_text(const TextSourceOptions& options, const ReadProgress& progress) {
  FileList list = list_files(options);
  TextSource source{.documents = {}, .skipped = list.skipped, .total_bytes = 0, .fingerprint = {}};
  ChecksumStream128 fingerprint;
  std::uint64_t bytes_read = 0;
  for (ListedFile& listed : list.files) {
    const FileFormat format = format_of(listed, options);
    const Reading reading =
        read_document(listed.file, format == FileFormat{}, progress, bytes_read);
    bytes_read += reading.size;
    if (reading.kind != Kind::text) {
      if (listed.named) refuse_named(listed, reading);
      ++(reading.kind == Kind::empty ? source.skipped.empty : source.skipped.binary);
      continue;
    }
    source.documents.push_back({std::move(listed.relative_path), std::move(listed.file),
                                reading.size, reading.contents, format});
    add_to_fingerprint(fingerprint, source.documents.back());
    source.total_bytes += reading.size;
  }
  if (source.documents.empty()) fail_without_text(options, source.skipped);
  source.fingerprint = to_hex(fingerprint.digest());
  return source;
}

}  // namespace kha
