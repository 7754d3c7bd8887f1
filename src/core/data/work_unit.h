// Preparation in pieces: what a thread takes at once, and what comes back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kha/core/corpus.h"

namespace kha {

// A document, or a part of one, in a unit's text.
struct Piece {
  std::uint32_t file = 0;       // index in TextSource::documents
  std::uint64_t line = 0;       // from 1; 0: the file is the document
  std::uint64_t offset = 0;     // bytes before it in the (unpacked) file
  std::size_t begin = 0;        // in Unit::text
  std::size_t size = 0;         // bytes
  bool begins = true;           // the document begins here
  bool ends = true;             // and ends here
  bool too_long = false;        // a line over the limit: its text is left out
  std::int64_t prompt_ids = 0;  // of documents that are ids already
};

// Cut by the source alone: never by threads, nor by where an interrupted preparation stopped.
struct Unit {
  std::string text;
  std::vector<Piece> pieces;
  std::uint64_t file_bytes = 0;  // bytes of all files up to the end of this unit
};

struct EncodedPiece {
  std::int64_t tokens = 0;  // without the end mark
  std::int64_t prompt_tokens = 0;
  std::int64_t bytes = 0;  // of text
  bool held_out = false;
  bool begins = true, ends = true;
  bool closed = false;  // its end mark is among the tokens
};

struct EncodedUnit {
  std::vector<std::uint32_t> ids;
  std::vector<EncodedPiece> pieces;
  std::vector<BadLine> bad_lines;
  TextCounts text;
  std::int64_t empty = 0;  // documents of nothing but blanks, or without text
};

}  // namespace kha
