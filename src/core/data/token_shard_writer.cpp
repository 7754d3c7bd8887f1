#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <numeric>
#include <string>

#include "core/data/shard_layout.h"
#include "kha/core/error.h"
#include "kha/core/token_shard.h"

namespace kha {
namespace {

namespace layout = shard_layout;

std::int64_t sum(std::span<const std::int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t file_size(const TokenShardPlan& plan) {
  return layout::ids_begin(static_cast<std::int64_t>(plan.document_lengths.size())) +
         sum(plan.document_lengths) * layout::id_width(plan.vocab_size);
}

template <class Number>
void write_number(FileSink& sink, Number number) {
  sink.write(std::as_bytes(std::span(&number, 1)));
}

void write_header(FileSink& sink, const TokenShardPlan& plan) {
  sink.write(layout::magic);
  write_number(sink, token_shard_version);
  write_number(sink, static_cast<std::uint32_t>(layout::id_width(plan.vocab_size)));
  write_number(sink, static_cast<std::uint64_t>(plan.vocab_size));
  write_number(sink, plan.tokenizer_hash);
  write_number(sink, static_cast<std::uint64_t>(sum(plan.document_lengths)));
  write_number(sink, static_cast<std::uint64_t>(plan.document_lengths.size()));
  std::uint64_t offset = 0;
  write_number(sink, offset);
  for (const std::int64_t length : plan.document_lengths) {
    assert(length > 0);
    write_number(sink, offset += static_cast<std::uint64_t>(length));
  }
  const std::array<std::byte, layout::alignment> zeros{};
  const auto documents = static_cast<std::int64_t>(plan.document_lengths.size());
  sink.write(std::span(zeros).first(layout::ids_begin(documents) - sink.size()));
}

template <class Stored>
void narrow(std::span<const std::int64_t> ids, std::vector<std::byte>& out) {
  out.resize(ids.size() * sizeof(Stored));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Stored>(ids[i]);
    std::memcpy(out.data() + i * sizeof(Stored), &id, sizeof(Stored));
  }
}

}  // namespace

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path, const TokenShardPlan& plan)
    : path_(path),
      sink_(path, static_cast<std::uint64_t>(file_size(plan))),
      vocab_size_(plan.vocab_size),
      planned_(sum(plan.document_lengths)) {
  assert(plan.vocab_size > 0 && plan.vocab_size <= layout::most_vocab);
  write_header(sink_, plan);
}

void TokenShardWriter::write(std::span<const std::int64_t> ids) {
  const auto bad =
      std::ranges::find_if(ids, [this](std::int64_t id) { return id < 0 || id >= vocab_size_; });
  if (bad != ids.end()) {
    fail({.what = "a token id is outside the vocabulary",
          .where = path_.string() + ", token " + std::to_string(written_ + (bad - ids.begin())),
          .expected = "ids from 0 to " + std::to_string(vocab_size_ - 1),
          .found = std::to_string(*bad),
          .cause = "the ids come from another tokenizer than the vocabulary size"});
  }
  written_ += static_cast<std::int64_t>(ids.size());
  if (written_ > planned_) fail_for_length();
  layout::id_width(vocab_size_) == 2 ? narrow<std::uint16_t>(ids, stored_)
                                     : narrow<std::uint32_t>(ids, stored_);
  sink_.write(stored_);
}

void TokenShardWriter::finish() {
  if (written_ != planned_) fail_for_length();
  sink_.finish();
}

void TokenShardWriter::fail_for_length() const {
  fail({.what = "the documents have another length than planned",
        .where = path_.string(),
        .expected = std::to_string(planned_) + " tokens",
        .found = (written_ > planned_ ? "at least " : "") + std::to_string(written_),
        .cause = "the text changed while it was read",
        .next = "run the same command again when nothing writes to the text"});
}

}  // namespace kha
