// kha tokenizer verify: our ids beside those of the `tokenizers` package, for the same texts.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/beside.h"
#include "cli/nasty_texts.h"
#include "cli/tokenizer_commands.h"
#include "core/store/text_of_file.h"
#include "core/store/wording.h"
#include "core/text/unfinished_character.h"
#include "core/tokenizer/is_utf8.h"
#include "core/tokenizer/unicode.h"
#include "kha/core/atomic_file.h"
#include "kha/core/temporary_folder.h"
#include "kha/core/tokenizer.h"

namespace kha::cli {
namespace {

using Ids = std::vector<std::int64_t>;
using Json = nlohmann::ordered_json;

struct Options {
  std::string folder;
  std::string against;
  std::vector<std::string> paths;
  std::vector<std::string> texts;
  bool json = false;
};

struct Difference {
  std::string text;      // its name
  std::string of;        // what differs
  std::size_t position;  // of the first id, or byte of decoded text
  std::string ours;
  std::string theirs;
  std::string before;  // what stands before it in the text
};

// What the package gives for the texts, a list of {"plain", "special", "decoded"}.
Json ask_package(const Options& options, const std::vector<NamedText>& texts) {
  const auto peer = program_beside("kha-tokenizer-peer");
  if (!peer) {
    fail({.what = "the tool that runs the tokenizers package is not installed beside kha",
          .expected = "kha-tokenizer-peer",
          .next = "make build"});
  }
  const TemporaryFolder folder("verify");
  Json questions = Json::array();
  for (const NamedText& text : texts) questions.push_back(text.text);
  const auto asked = folder.path() / "texts.json", answered = folder.path() / "ids.json";
  write_file_atomically(asked, questions.dump());
  const int code = run_child(*peer, {options.folder, asked.string(), answered.string()});
  if (code != 0) {
    fail({.what = "the tokenizers package gave no ids to compare with",
          .where = options.folder,
          .found = fmt::format("exit code {}", code)});
  }
  return Json::parse(text_of_file(answered));
}

std::string shown_ids(const Tokenizer& tokenizer, const Ids& ids, std::size_t at) {
  std::string text;
  for (std::size_t i = at; i < std::min(at + 4, ids.size()); ++i) {
    const bool known = ids[i] >= 0 && ids[i] < tokenizer.vocab_size();
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", ids[i],
                        known ? shown(tokenizer.token(ids[i])) : "no token here");
  }
  return text.empty() ? "the end" : text;
}

std::string tail(const std::string& text) {
  return shown(text.size() > 40 ? text.substr(text.size() - 40) : text);
}

std::optional<Difference> compare_ids(const Tokenizer& tokenizer, const std::string& name,
                                      const std::string& of, const Ids& ours, const Ids& theirs) {
  if (ours == theirs) return std::nullopt;
  const auto places = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto at = static_cast<std::size_t>(places.first - ours.begin());
  return Difference{name,
                    of,
                    at,
                    shown_ids(tokenizer, ours, at),
                    shown_ids(tokenizer, theirs, at),
                    tail(tokenizer.decode(std::span(ours).first(at)))};
}

// Bytes that make no UTF-8 as the package writes them: one replacement character for as many as
// begin a character, or for one that begins none.
std::string without_broken_characters(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    std::size_t length = character.length;
    for (std::size_t longer = 2; !character.valid() && longer < 4; ++longer) {
      if (unfinished_character(text.substr(at, longer)) == longer) length = longer;
    }
    out += character.valid() ? text.substr(at, length) : "\uFFFD";
    at += length;
  }
  return out;
}

std::optional<Difference> compare_text(const std::string& name, const std::string& ours,
                                       const std::string& theirs) {
  if (ours == theirs) return std::nullopt;
  const auto places = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto at = static_cast<std::size_t>(places.first - ours.begin());
  return Difference{name,
                    "the decoded text",
                    at,
                    shown(ours.substr(at, 40)),
                    shown(theirs.substr(at, 40)),
                    tail(ours.substr(0, at))};
}

std::optional<Difference> compare(const Tokenizer& tokenizer, const NamedText& text,
                                  const Json& answer) {
  const Ids plain = tokenizer.encode(text.text);
  if (auto found = compare_ids(tokenizer, text.name, "the ids of a document", plain,
                               answer.at("plain").get<Ids>())) {
    return found;
  }
  Ids special;
  tokenizer.encode_with_special(text.text, special, /*with_around=*/true);
  if (auto found = compare_ids(tokenizer, text.name, "the ids with special tokens", special,
                               answer.at("special").get<Ids>())) {
    return found;
  }
  return compare_text(text.name, without_broken_characters(tokenizer.decode(plain)),
                      answer.at("decoded").get<std::string>());
}

void print_difference(const Difference& difference) {
  fmt::print("{}: {} differ\n", difference.text, difference.of);
  fmt::print("  first at: {}{}\n", difference.of == "the decoded text" ? "byte " : "id ",
             difference.position);
  fmt::print("  behind:   {}\n", difference.before.empty() ? "the beginning" : difference.before);
  fmt::print("  ours:     {}\n  theirs:   {}\n", difference.ours, difference.theirs);
}

// What was compared, and what came of it.
struct Comparison {
  std::string version;
  std::size_t texts = 0, bytes = 0;
  std::vector<std::string> left_out;
  std::vector<Difference> differences;

  bool equal() const { return differences.empty(); }
};

void print_json(const Options& options, const Comparison& c) {
  Json json{{"tokenizer", options.folder},
            {"against", "tokenizers " + c.version},
            {"texts", c.texts},
            {"bytes", c.bytes},
            {"not_utf8", c.left_out},
            {"equal", c.equal()},
            {"differences", Json::array()}};
  for (const Difference& each : c.differences) {
    json["differences"].push_back({{"text", each.text},
                                   {"of", each.of},
                                   {"position", each.position},
                                   {"behind", each.before},
                                   {"ours", each.ours},
                                   {"theirs", each.theirs}});
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const Comparison& c) {
  if (!c.left_out.empty()) {
    fmt::print("left out, since they are not UTF-8, which the package cannot take:\n{}\n",
               listed(c.left_out));
  }
  if (!c.equal()) print_difference(c.differences.front());
  fmt::print("{}: {} of {} texts, {} bytes in all, {}tokenizers {}\n",
             c.equal() ? "equal" : "NOT EQUAL", c.equal() ? c.texts : c.differences.size(), c.texts,
             c.bytes, c.equal() ? "id for id as " : "differ from ", c.version);
}

Comparison compare_all(const Options& options, const Tokenizer& tokenizer) {
  Comparison found;
  std::vector<NamedText> texts = nasty_texts();
  for (NamedText& text : read_texts(options.texts, options.paths, /*or_input=*/false)) {
    is_utf8(text.text) ? texts.push_back(std::move(text)) : found.left_out.push_back(text.name);
  }
  const Json answer = ask_package(options, texts);
  found.version = answer.at("version").get<std::string>();
  found.texts = texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    found.bytes += texts[i].text.size();
    if (auto difference = compare(tokenizer, texts[i], answer.at("texts").at(i))) {
      found.differences.push_back(std::move(*difference));
    }
  }
  return found;
}

int run(const Options& options) {
  if (options.against != "tokenizers") {
    fail({.what = "there is nothing of this name to compare with",
          .expected = "--against tokenizers",
          .found = options.against});
  }
  const Comparison found = compare_all(options, *open_tokenizer(options.folder));
  options.json ? print_json(options, found) : print_text(found);
  return static_cast<int>(found.equal() ? ExitCode::good : ExitCode::check_failed);
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("DIR", options->folder, "a folder with a tokenizer.json, or the file")->required();
  app.add_option("FILES", options->paths, "texts besides those that are built in");
  app.add_option("--against", options->against, "what to compare with: tokenizers")->required();
  app.add_option("--text", options->texts, "a text itself; may be repeated")
      ->allow_extra_args(false);
  add_json_option(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace

Command tokenizer_verify_command() {
  return {"verify", "compare ids with those of the tokenizers package", add};
}

}  // namespace kha::cli
