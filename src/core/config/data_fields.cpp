#include "core/config/data_fields.h"

namespace kha {
namespace {

using enum OnResume;
constexpr double large = 1e15;

// Which text there is, and which of it is held out.
void add_text(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"data.paths", &c.data.paths, refused,
               "data files or folders: text, .jsonl, .parquet, .tokens, .bin"});
  f.push_back({"data.extensions", &c.data.extensions, refused,
               "of files in folders; empty: every text file"});
  f.push_back({"data.validation_share",
               &c.data.validation_share,
               refused,
               "share of documents held out",
               {},
               0,
               0.9});
  f.push_back(
      {"data.split_seed", &c.data.split_seed, refused, "seed of the held-out split", {}, 0, large});
  f.push_back({"data.fingerprint", &c.data.fingerprint, free,
               "hash of the text that was meant; another is reported"});
  f.push_back(
      {"data.cache", &c.data.cache, free, "folder of token shards; empty: run.folder/.data"});
}

// How text becomes tokens, and which of them a token sees.
void add_tokens(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"data.boundary_targets", &c.data.boundary_targets, refused,
               "count the guess of a document's first token"});
  f.push_back({"data.tokenizer", &c.data.tokenizer, refused,
               "tokenizer.json or its folder; empty: bytes, or that of init.from"});
  f.push_back({"data.vocab_multiple",
               &c.data.vocab_multiple,
               refused,
               "rows of the embedding are a multiple of this",
               {},
               1,
               1 << 20});
  f.push_back(
      {"data.document_mask", &c.data.document_mask, refused, "a token sees its own document only"});
  f.push_back({"data.reset_positions", &c.data.reset_positions, refused,
               "each document begins at position 0"});
}

// What stands where in the files.
void add_formats(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"data.weights", &c.data.weights, refused,
               "share of each path in training; empty: all text is one source"});
  f.push_back({"data.text_key", &c.data.text_key, refused, "key of the text in JSON lines"});
  f.push_back({"data.prompt_key", &c.data.prompt_key, refused,
               "key of a prompt, which is not learned; needs answer_key"});
  f.push_back({"data.answer_key", &c.data.answer_key, refused, "key of the answer to it"});
  f.push_back({"data.bad_lines",
               &c.data.bad_lines,
               noted,
               "most lines that are no document and are skipped; 0: stop at the first",
               {},
               0,
               large});
  f.push_back({"data.raw_type",
               &c.data.raw_type,
               refused,
               "width of the ids in .bin files",
               {"", "uint16", "uint32"}});
}

}  // namespace

void add_data_fields(std::vector<Field>& fields, RunConfig& config) {
  add_text(fields, config);
  add_tokens(fields, config);
  add_formats(fields, config);
}

}  // namespace kha
