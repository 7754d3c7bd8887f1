#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string>

#include "core/data/shard_layout.h"
#include "kha/core/error.h"
#include "kha/core/token_shard.h"

namespace kha {
namespace {

namespace layout = shard_layout;

template <class Number>
void add_number(std::vector<std::byte>& bytes, Number number) {
  const auto parts = std::as_bytes(std::span(&number, 1));
  bytes.insert(bytes.end(), parts.begin(), parts.end());
}

std::vector<std::byte> make_header(const TokenShardKind& kind) {
  std::vector<std::byte> bytes;
  const auto magic = std::as_bytes(std::span(layout::magic));
  bytes.assign(magic.begin(), magic.end());
  add_number(bytes, token_shard_version);
  add_number(bytes, static_cast<std::uint32_t>(layout::id_width(kind.vocab_size)));
  add_number(bytes, static_cast<std::uint64_t>(kind.vocab_size));
  add_number(bytes, kind.tokenizer_hash);
  bytes.resize(layout::header_size);
  return bytes;
}

template <class Stored, class Id>
void narrow(std::span<const Id> ids, std::vector<std::byte>& out) {
  out.resize(ids.size() * sizeof(Stored));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Stored>(ids[i]);
    std::memcpy(out.data() + i * sizeof(Stored), &id, sizeof(Stored));
  }
}

}  // namespace

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path, const TokenShardKind& kind)
    : path_(path), sink_(path), kind_(kind), header_(make_header(kind)) {
  assert(kind.vocab_size > 0 && kind.vocab_size <= layout::most_vocab);
  sink_.write(header_);
}

template <class Id>
void TokenShardWriter::check(std::span<const Id> ids) const {
  const auto vocab = static_cast<std::uint64_t>(kind_.vocab_size);
  const auto bad =
      std::ranges::find_if(ids, [&](Id id) { return static_cast<std::uint64_t>(id) >= vocab; });
  if (bad == ids.end()) return;
  fail({.what = "a token id is outside the vocabulary",
        .where = path_.string() + ", token " + std::to_string(tokens_ + (bad - ids.begin())),
        .expected = "ids from 0 to " + std::to_string(kind_.vocab_size - 1),
        .found = std::to_string(*bad),
        .cause = "the ids come from another tokenizer than the vocabulary size"});
}

void TokenShardWriter::write(std::span<const std::int64_t> ids) {
  check(ids);
  layout::id_width(kind_.vocab_size) == 2 ? narrow<std::uint16_t>(ids, stored_)
                                          : narrow<std::uint32_t>(ids, stored_);
  write_stored(stored_);
}

void TokenShardWriter::write(std::span<const std::uint32_t> ids) {
  check(ids);
  if (layout::id_width(kind_.vocab_size) == 4) return write_stored(std::as_bytes(ids));
  narrow<std::uint16_t>(ids, stored_);
  write_stored(stored_);
}

void TokenShardWriter::write_stored(std::span<const std::byte> ids) {
  ids_checksum_.update(ids);
  sink_.write(ids);
  tokens_ += static_cast<std::int64_t>(ids.size()) / layout::id_width(kind_.vocab_size);
}

void TokenShardWriter::end_document(std::int64_t prompt_tokens) {
  const auto end = static_cast<std::uint64_t>(tokens_);
  assert(end > offsets_.back() && prompt_tokens >= 0 &&
         static_cast<std::uint64_t>(prompt_tokens) <= end - offsets_.back());
  offsets_.push_back(end);
  prompts_.push_back(static_cast<std::uint64_t>(prompt_tokens));
  any_prompt_ = any_prompt_ || prompt_tokens > 0;
}

void TokenShardWriter::write_tables() {
  const std::array<std::byte, 8> zeros{};
  sink_.write(std::span(zeros).first((8 - sink_.size() % 8) % 8));
  ChecksumStream checksum;
  const auto write_table = [&](const std::vector<std::uint64_t>& table) {
    checksum.update(std::as_bytes(std::span(table)));
    sink_.write(std::as_bytes(std::span(table)));
  };
  write_table(offsets_);
  if (any_prompt_) write_table(prompts_);
  write_footer(checksum.digest());
}

void TokenShardWriter::write_footer(std::uint64_t tables_checksum) {
  std::vector<std::byte> footer;
  add_number(footer, static_cast<std::uint64_t>(tokens_));
  add_number(footer, static_cast<std::uint64_t>(offsets_.size() - 1));
  add_number(footer, any_prompt_ ? layout::has_prompts : std::uint64_t{0});
  add_number(footer, ids_checksum_.digest());
  add_number(footer, tables_checksum);
  ChecksumStream ends;
  ends.update(header_);
  ends.update(footer);
  add_number(footer, ends.digest());
  sink_.write(footer);
  sink_.write(layout::end_magic);
}

FileReport TokenShardWriter::finish() {
  assert(offsets_.back() == static_cast<std::uint64_t>(tokens_) && "a document is open");
  write_tables();
  return sink_.finish();
}

}  // namespace kha
