// From a text to ids: added tokens, normalisation, pieces, merges.
#include <fmt/format.h>

#include "core/tokenizer/bpe_tokenizer.h"
#include "kha/core/error.h"

namespace kha {

// One text on its way.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, Scratch& scratch, std::vector<std::int64_t>& ids,
           bool marks)
      : of_(tokenizer), scratch_(scratch), ids_(ids) {
    takes_ = [&tokenizer, marks](const AddedToken& token) {
      return marks || (!token.special && token.id != tokenizer.end_id_);
    };
    on_token_ = [this](const AddedToken& token) { ids_.push_back(token.id); };
  }

  void run(std::string_view text) {
    of_.added_.split(
        text, false, takes_,
        [&](std::string_view part, std::size_t begin) { normalise(part, begin == 0); }, on_token_);
  }

 private:
  void normalise(std::string_view text, bool at_start) {
    std::string storage;
    const std::string_view normal = of_.normaliser_.apply(text, storage);
    of_.added_.split(
        normal, true, takes_,
        [&](std::string_view part, std::size_t begin) { split(part, at_start && begin == 0); },
        on_token_);
  }

  void split(std::string_view text, bool at_start) {
    if (const auto& scanner = of_.pre_tokenizer_.scanner()) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = scanner->end_of_piece(text, at);
        encode_piece(text.substr(at, end - at));
        at = end;
      }
      return;
    }
    PieceList list{.pieces = {{text, at_start}}, .owned = {}};
    of_.pre_tokenizer_.split(list);
    for (const auto& piece : list.pieces) encode_piece(piece.text);
  }

  void encode_piece(std::string_view piece) {
    if (piece.size() > WordCache::longest) {
      refuse_giant(piece);
      of_.model_.encode(piece, scratch_.symbols, scratch_.merges);
      ids_.insert(ids_.end(), scratch_.symbols.begin(), scratch_.symbols.end());
      return;
    }
    const std::uint64_t hash = WordCache::hash_of(piece);
    std::uint32_t count = 0;
    if (const std::uint32_t* known = scratch_.cache.find(piece, hash, count)) {
      ids_.insert(ids_.end(), known, known + count);
      return;
    }
    of_.model_.encode(piece, scratch_.symbols, scratch_.merges);
    scratch_.cache.put(piece, hash, scratch_.symbols);
    ids_.insert(ids_.end(), scratch_.symbols.begin(), scratch_.symbols.end());
  }

  void refuse_giant(std::string_view piece) const {
    if (piece.size() < (std::size_t{1} << 31)) return;
    fail({.what = "a piece of the text is too long for the tokenizer",
          .where = of_.file_.string(),
          .expected = "less than 2 GiB without a place to split at",
          .found = fmt::format("{} bytes", piece.size()),
          .next = "cut the document into several"});
  }

  const BpeTokenizer& of_;
  Scratch& scratch_;
  std::vector<std::int64_t>& ids_;
  AddedTokens::Takes takes_;
  AddedTokens::OnToken on_token_;
};

std::unique_ptr<BpeTokenizer::Scratch> BpeTokenizer::take_scratch() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Scratch>();
  auto scratch = std::move(idle_.back());
  idle_.pop_back();
  return scratch;
}

void BpeTokenizer::put_back(std::unique_ptr<Scratch> scratch) const {
  // A giant piece must not hold its memory for ever.
  if (scratch->merges.nodes.size() > (std::size_t{1} << 20)) {
    scratch->merges = {};
    scratch->symbols = {};
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int64_t>& ids) const {
  auto scratch = take_scratch();
  Encoding(*this, *scratch, ids, /*marks=*/false).run(text);
  put_back(std::move(scratch));
}

void BpeTokenizer::encode_with_special(std::string_view text, std::vector<std::int64_t>& ids,
                                       bool with_around) const {
  auto scratch = take_scratch();
  if (with_around) ids.insert(ids.end(), around_.before.begin(), around_.before.end());
  Encoding(*this, *scratch, ids, /*marks=*/true).run(text);
  if (with_around) ids.insert(ids.end(), around_.behind.begin(), around_.behind.end());
  put_back(std::move(scratch));
}

}  // namespace kha
