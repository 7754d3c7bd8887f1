#include "core/data/part_files.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "core/data/corpus_summary.h"
#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "kha/core/fail_point.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

constexpr const char* sides[] = {"train", "validation"};

nlohmann::ordered_json as_json(const PartRecord& record) {
  return {{"index", record.index},
          {"text_checksum", record.text_checksum},
          {"train", split_as_json(record.train)},
          {"validation", split_as_json(record.validation)},
          {"empty_documents", record.empty_documents},
          {"bad_lines", bad_lines_as_json(record.bad_lines)},
          {"text", text_as_json(record.text)},
          {"joins", record.joins},
          {"open", record.open.open},
          {"open_tokens", record.open.tokens}};
}

PartRecord from_json(const nlohmann::json& json) {
  return {.index = json.at("index"),
          .text_checksum = json.at("text_checksum"),
          .train = split_from_json(json.at("train")),
          .validation = split_from_json(json.at("validation")),
          .empty_documents = json.at("empty_documents"),
          .bad_lines = bad_lines_from_json(json.at("bad_lines")),
          .text = text_from_json(json.at("text")),
          .joins = json.at("joins"),
          .open = {.open = json.at("open"), .tokens = json.at("open_tokens")}};
}

}  // namespace

fs::path PartFolder::shard(std::int64_t index, bool held_out) const {
  return folder_ / fmt::format("{:06}.{}.tokens", index, sides[held_out]);
}

fs::path PartFolder::record(std::int64_t index) const {
  return folder_ / fmt::format("{:06}.json", index);
}

std::optional<PartRecord> PartFolder::read(std::int64_t index, std::uint64_t tokenizer_hash) const {
  std::ifstream file(record(index));
  if (!file) return std::nullopt;
  try {
    PartRecord result = from_json(nlohmann::json::parse(file));
    if (result.index != index) return std::nullopt;
    for (const bool held_out : {false, true}) {
      const TokenShard part = TokenShard::open(shard(index, held_out), tokenizer_hash);
      part.check_checksum();
      const SplitSummary& split = held_out ? result.validation : result.train;
      if (part.tokens() != split.tokens) return std::nullopt;
    }
    return result;
  } catch (const Error&) {
    return std::nullopt;  // a damaged part is made again from the text
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void PartFolder::write(const PartRecord& part) const {
  write_file_atomically(
      record(part.index),
      as_json(part).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void PartFolder::keep_first(std::int64_t count) const {
  std::set<std::string> kept;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const fs::path& file : {shard(i, false), shard(i, true), record(i)}) {
      kept.insert(file.filename().native());
    }
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // what cannot be removed makes the writing after this fail
    if (!kept.contains(entry->path().filename().native())) fs::remove(entry->path(), ignored);
  }
}

PartWriter::PartWriter(const PartFolder& folder, std::int64_t index, const Tokenizer& tokenizer,
                       OpenDocument open)
    : folder_(folder),
      end_id_(tokenizer.end_id()),
      train_(folder.shard(index, false), {tokenizer.vocab_size(), tokenizer.hash()}),
      validation_(folder.shard(index, true), {tokenizer.vocab_size(), tokenizer.hash()}),
      open_(open) {
  record_.index = index;
}

void PartWriter::add(const Unit& unit, const EncodedUnit& encoded) {
  text_checksum_.update(std::as_bytes(std::span(unit.text)));
  record_.empty_documents += encoded.empty;
  kha::add(record_.text, encoded.text);
  kha::add(record_.bad_lines,
           {static_cast<std::int64_t>(encoded.bad_lines.size()), encoded.bad_lines});
  std::span<const std::uint32_t> ids(encoded.ids);
  for (const EncodedPiece& piece : encoded.pieces) {
    const auto count = static_cast<std::size_t>(piece.tokens);
    add_piece(piece, ids.first(count));
    ids = ids.subspan(count);
  }
}

void PartWriter::add_piece(const EncodedPiece& piece, std::span<const std::uint32_t> ids) {
  if (piece.begins) {
    open_ = {.open = true, .tokens = 0};
    open_here_ = false;
  }
  open_held_out_ = piece.held_out;
  summary(piece.held_out).bytes += piece.bytes;
  if (!ids.empty()) {
    if (!open_here_ && open_.tokens > 0) record_.joins = sides[piece.held_out];
    open_here_ = true;
    open_.tokens += piece.tokens;
    side(piece.held_out).write(ids);
  }
  if (piece.ends) end_document(piece);
}

void PartWriter::end_document(const EncodedPiece& piece) {
  const bool empty = open_.tokens == 0;
  empty ? ++record_.empty_documents : ++summary(piece.held_out).documents;
  if (!empty && end_id_ >= 0 && !piece.closed) {
    if (!open_here_) record_.joins = sides[piece.held_out];
    open_here_ = true;
    const std::int64_t end[] = {end_id_};
    side(piece.held_out).write(end);
  }
  if (open_here_) side(piece.held_out).end_document(piece.prompt_tokens);
  open_ = {};
  open_here_ = false;
}

PartRecord PartWriter::finish() {
  record_.train.tokens = train_.tokens();
  record_.validation.tokens = validation_.tokens();
  record_.text_checksum = text_checksum_.digest();
  record_.open = open_;
  if (open_here_) side(open_held_out_).end_document();
  train_.finish();
  validation_.finish();
  maybe_fail(fmt::format("data-part-{}-unrecorded", record_.index).c_str());
  folder_.write(record_);
  maybe_fail(fmt::format("data-part-{}", record_.index).c_str());
  return record_;
}

}  // namespace kha
