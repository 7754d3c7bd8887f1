#include "core/data/unit_encoder.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/data/file_reader.h"
#include "core/data/held_out_split.h"
#include "core/data/json_line.h"
#include "core/data/long_text.h"
#include "core/data/text_counts.h"

namespace kha {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

class UnitEncoder {
 public:
  UnitEncoder(const Unit& unit, const TextSource& source, const CorpusOptions& options)
      : unit_(unit), source_(source), options_(options) {}

  EncodedUnit run() {
    for (const Piece& piece : unit_.pieces) add(piece);
    return std::move(result_);
  }

 private:
  void add(const Piece& piece) {
    const std::string_view text = std::string_view(unit_.text).substr(piece.begin, piece.size);
    switch (source_.documents[piece.file].format.content) {
      case FileContent::text:
        return add_text(piece, text);
      case FileContent::lines:
      case FileContent::parquet:
        return add_line(piece, text);
      case FileContent::shard:
      case FileContent::raw_ids:
        return add_ids(piece, text);
    }
  }

  void add_text(const Piece& piece, std::string_view text) {
    if (piece.begins && piece.ends && is_blank(text)) {
      ++result_.empty;
      return;
    }
    count_text(text, piece.begins, result_.text);
    add_document(piece, {.tokens = encode(text), .bytes = size_of(text)});
  }

  void add_line(const Piece& piece, std::string_view line) {
    if (piece.too_long) {
      return add_fault(piece, {"the line is too long",
                               "at most " + std::to_string(most_line) + " bytes", "more"});
    }
    if (is_blank(line)) {
      ++result_.empty;
      return;
    }
    const auto parsed = parse_line(line, options_.keys);
    if (const auto* fault = std::get_if<LineFault>(&parsed)) return add_fault(piece, *fault);
    const auto& text = std::get<LineText>(parsed);
    if (text.empty) {
      ++result_.empty;
      return;
    }
    count_text(text.prompt, true, result_.text);
    count_text(text.text, !options_.keys.with_prompt(), result_.text);
    // Apart, so that the border between the two is one of tokens.
    const std::int64_t prompt = encode(text.prompt);
    add_document(piece, {.tokens = prompt + encode(text.text),
                         .prompt_tokens = prompt,
                         .bytes = size_of(text.prompt) + size_of(text.text)});
  }

  void add_ids(const Piece& piece, std::string_view stored) {
    const std::size_t before = result_.ids.size(), count = stored.size() / 4;
    result_.ids.resize(before + count);
    std::memcpy(result_.ids.data() + before, stored.data(), count * 4);
    EncodedPiece document{.tokens = static_cast<std::int64_t>(count),
                          .prompt_tokens = piece.prompt_ids,
                          .closed = true};
    for (std::size_t i = before; i < result_.ids.size(); ++i) {
      document.bytes += options_.tokenizer->bytes_of(result_.ids[i]);
    }
    add_document(piece, document);
  }

  void add_document(const Piece& piece, EncodedPiece document) {
    const std::string& path = source_.documents[piece.file].relative_path;
    document.held_out = is_held_out(path, piece.line, options_);
    document.begins = piece.begins;
    document.ends = piece.ends;
    result_.pieces.push_back(document);
  }

  void add_fault(const Piece& piece, const LineFault& fault) {
    const TextDocument& document = source_.documents[piece.file];
    const bool rows = document.format.content == FileContent::parquet;
    std::string where =
        document.file.string() + (rows ? ", row " : ", line ") + std::to_string(piece.line);
    if (!rows) {
      where += ", byte " + std::to_string(piece.offset + fault.at);
      if (document.format.compression != Compression::none) where += " of the unpacked file";
    }
    result_.bad_lines.push_back({fault.what, where, fault.expected, fault.found});
  }

  static std::int64_t size_of(std::string_view text) {
    return static_cast<std::int64_t>(text.size());
  }

  // Appends the ids of a text and returns how many they are.
  std::int64_t encode(std::string_view text) {
    const std::size_t before = result_.ids.size();
    while (text.size() > most_whole) {
      const std::size_t cut = cut_long_text(text.substr(0, most_whole));
      encode_whole(text.substr(0, cut));
      text.remove_prefix(cut);
    }
    encode_whole(text);
    return static_cast<std::int64_t>(result_.ids.size() - before);
  }

  void encode_whole(std::string_view text) {
    ids_.clear();
    options_.tokenizer->encode(text, ids_);
    const std::size_t before = result_.ids.size();
    result_.ids.resize(before + ids_.size());
    std::ranges::transform(ids_, result_.ids.begin() + static_cast<std::ptrdiff_t>(before),
                           [](std::int64_t id) { return static_cast<std::uint32_t>(id); });
  }

  const Unit& unit_;
  const TextSource& source_;
  const CorpusOptions& options_;
  EncodedUnit result_;
  std::vector<std::int64_t> ids_;
};

}  // namespace

EncodedUnit encode_unit(const Unit& unit, const TextSource& source, const CorpusOptions& options) {
  return UnitEncoder(unit, source, options).run();
}

}  // namespace kha
