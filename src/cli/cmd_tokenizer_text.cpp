// kha tokenizer encode, decode: text to ids and back.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/text_input.h"
#include "cli/tokenizer_commands.h"
#include "core/machine/worker_threads.h"
#include "kha/core/tokenizer.h"

namespace kha::cli {
namespace {

using Ids = std::vector<std::int64_t>;

struct Options {
  std::string folder;
  std::vector<std::string> paths;
  std::vector<std::string> texts;
  std::vector<std::string> ids;
  bool special = false;
  bool around = false;
  bool count = false;
  int threads = 0;
  bool json = false;
};

struct Total {
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  double seconds = 0;

  double bytes_per_token() const { return tokens ? static_cast<double>(bytes) / tokens : 0; }
};

Ids encode(const Tokenizer& tokenizer, const Options& options, const std::string& text) {
  Ids ids;
  if (options.special || options.around) {
    tokenizer.encode_with_special(text, ids, options.around);
  } else {
    tokenizer.encode(text, ids);
  }
  return ids;
}

std::vector<Ids> encode_all(const Tokenizer& tokenizer, const Options& options,
                            const std::vector<NamedText>& texts) {
  std::vector<Ids> all(texts.size());
  std::atomic<std::size_t> next = 0;
  on_threads(options.threads > 0 ? options.threads : usable_cores(), [&] {
    for (std::size_t i; (i = next++) < texts.size();) {
      all[i] = encode(tokenizer, options, texts[i].text);
    }
  });
  return all;
}

void print_json(const Options& options, const Tokenizer& tokenizer, const Total& total,
                const std::vector<NamedText>& texts, const std::vector<Ids>& ids) {
  nlohmann::ordered_json json{{"tokenizer", options.folder},
                              {"kind", tokenizer.kind()},
                              {"vocab_size", tokenizer.vocab_size()},
                              {"bytes", total.bytes},
                              {"tokens", total.tokens},
                              {"bytes_per_token", total.bytes_per_token()},
                              {"seconds", total.seconds},
                              {"documents", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    nlohmann::ordered_json document{
        {"name", texts[i].name}, {"bytes", texts[i].text.size()}, {"tokens", ids[i].size()}};
    if (!options.count) document["ids"] = ids[i];
    json["documents"].push_back(std::move(document));
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}\n", json.dump(-1, ' ', false, Handler::replace));
}

void print_plain(const Options& options, const Total& total, const std::vector<Ids>& ids) {
  for (const Ids& document : ids) {
    if (!options.count) fmt::print("{}\n", fmt::join(document, " "));
  }
  if (!options.count) return;
  fmt::print("{} documents, {} bytes, {} tokens, {:.3f} bytes a token, {:.1f} MB/s\n", ids.size(),
             total.bytes, total.tokens, total.bytes_per_token(),
             total.seconds > 0 ? total.bytes / total.seconds / 1e6 : 0);
}

int run_encode(const Options& options) {
  const auto tokenizer = open_tokenizer(options.folder);
  const auto texts = read_texts(options.texts, options.paths, /*or_input=*/true);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Ids> ids = encode_all(*tokenizer, options, texts);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  Total total{.seconds = took.count()};
  for (const auto& text : texts) total.bytes += text.text.size();
  for (const Ids& document : ids) total.tokens += document.size();
  options.json ? print_json(options, *tokenizer, total, texts, ids)
               : print_plain(options, total, ids);
  return 0;
}

std::int64_t id_of(std::string_view word) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (error == std::errc() && end == word.data() + word.size()) return id;
  fail({.what = "this is no id",
        .expected = "whole numbers, with blanks or commas between them",
        .found = std::string(word)});
}

Ids ids_of(std::string_view text) {
  constexpr std::string_view between = " \t\r\n,[]";
  Ids ids;
  for (std::size_t at = 0; (at = text.find_first_not_of(between, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(between, at), text.size());
    ids.push_back(id_of(text.substr(at, end - at)));
    at = end;
  }
  return ids;
}

int run_decode(const Options& options) {
  const auto tokenizer = open_tokenizer(options.folder);
  const std::string given =
      options.ids.empty() ? read_standard_input() : fmt::format("{}", fmt::join(options.ids, " "));
  const Ids ids = ids_of(given);
  if (!options.json) {
    const std::string text = tokenizer->decode(ids);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (::isatty(STDOUT_FILENO)) fmt::print("\n");
    return 0;
  }
  nlohmann::ordered_json json{{"text", tokenizer->decode(ids)},
                              {"tokens", nlohmann::ordered_json::array()}};
  for (const std::int64_t id : ids) {
    json["tokens"].push_back(
        {{"id", id}, {"token", tokenizer->token(id)}, {"bytes", tokenizer->bytes_of(id)}});
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}\n", json.dump(2, ' ', false, Handler::replace));
  return 0;
}

void add_tokenizer_option(CLI::App& app, Options& options) {
  app.add_option("DIR", options.folder, "a folder with a tokenizer.json, or the file")->required();
}

std::function<int()> add_encode(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_tokenizer_option(app, *options);
  app.add_option("FILES", options->paths, "text files and folders (default: standard input)");
  app.add_option("--text", options->texts, "a text itself; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--special", options->special, "marks written out in the text become their ids");
  app.add_flag("--around", options->around,
               "as --special, with the tokens that the tokenizer puts around a text");
  app.add_flag("--count", options->count, "print counts instead of ids");
  app.add_option("--threads", options->threads, "documents at a time (default: all cores)");
  add_json_option(app, options->json);
  return [options] { return run_encode(*options); };
}

std::function<int()> add_decode(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_tokenizer_option(app, *options);
  app.add_option("IDS", options->ids, "ids (default: standard input)");
  add_json_option(app, options->json);
  return [options] { return run_decode(*options); };
}

}  // namespace

Command tokenizer_encode_command() {
  return {"encode", "text to ids, a line a document", add_encode};
}
Command tokenizer_decode_command() { return {"decode", "ids to text", add_decode}; }

}  // namespace kha::cli
