#include "cli/verify_gguf.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/engine_logits.h"
#include "cli/nasty_texts.h"
#include "core/store/wording.h"
#include "core/tokenizer/is_utf8.h"
#include "core/tokenizer/unicode_normal_form.h"
#include "kha/core/atomic_file.h"
#include "kha/core/model_tokenizer.h"
#include "kha/core/temporary_folder.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_texts = 200;
constexpr int not_installed = 3;  // exit code of the companion

// The texts that tokenizers go wrong on, then lines of the reader's own.
std::vector<std::string> texts_to_cut(const std::vector<std::string>& paths) {
  std::vector<std::string> texts;
  for (const NamedText& text : nasty_texts()) texts.push_back(text.text);
  for (const NamedText& file : read_texts({}, paths, /*or_input=*/false)) {
    std::string_view rest = file.text;
    while (!rest.empty() && texts.size() < most_texts) {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      texts.emplace_back(line.empty() ? rest : line);
      rest.remove_prefix(texts.back().size());
    }
  }
  return texts;
}

// [{"text", "ids"}]: as a document, in which no special token is read.
Json our_ids(const Tokenizer& tokenizer, const std::vector<std::string>& paths, bool normalises) {
  Json list = Json::array();
  for (std::string& text : texts_to_cut(paths)) {
    if (!is_utf8(text)) continue;
    // llama.cpp does not normalise, so it is asked about text that is in the form already.
    if (normalises) text = normalise(text, NormalForm::nfc);
    list.push_back({{"text", text}, {"ids", tokenizer.encode(text)}});
  }
  return list;
}

// What a type may do to log-probabilities: the engine's own rounding in float32, times the step of
// the type over that of float32, for the largest difference; nats for the mean one. llama.cpp
// rounds what it multiplies to the type as well, and a block of Q8_0 has one scale for 32 values.
struct TypeLimits {
  double step, mean;
};

TypeLimits limits_of(const std::string& dtype) {
  if (dtype == "q8_0") return {0x1p17, 0.5};
  if (dtype == "bfloat16") return {0x1p16, 0.25};
  if (dtype == "float16") return {0x1p13, 0.05};
  return {4, 1e-4};
}

double largest_allowed(const Json& found, const TypeLimits& limits) {
  const double one_unit = 0x1p-23 * found.at("largest_log_probability").get<double>();
  const double rounding = std::max(found.at("rounding_ours").get<double>(), one_unit);
  return std::max(1e-4, rounding * limits.step);
}

std::string texts_line(const Json& found) {
  const Json& differing = found.at("texts_differ");
  if (differing.empty()) {
    return fmt::format("token ids of {} texts are equal", found.at("texts").get<int>());
  }
  return fmt::format("token ids of {} of {} texts differ, first of {}", differing.size(),
                     found.at("texts").get<int>(),
                     shown(differing.front().at("text").get<std::string>()));
}

std::string verdict(const Json& found, bool equal) {
  return fmt::format(
      "verified in {}, architecture {}, KV cache in F32: largest difference of log-probabilities "
      "{:.3g} from float32, {:.3g} from float64 (limit {:.3g}), mean {:.3g} (limit {:.3g}), over "
      "{} "
      "positions\n  {}\n  {}\n{}\n",
      found.at("version").get<std::string>(), found.at("class").get<std::string>(),
      found.at("float32").get<double>(), found.at("from_float64").get<double>(),
      found.at("limit").get<double>(), found.at("mean").get<double>(),
      found.at("mean_limit").get<double>(), found.at("positions").get<int>(),
      continuation_line(found), texts_line(found),
      equal ? "equal to rounding"
            : "NOT EQUAL: the file was left in place for inspection, do not use it");
}

ExportProof no_proof() {
  return {
      false,
      "NOT VERIFIED: the file is written, and llama-cpp-python is not installed in kha's Python\n"
      "  next: make test-interop ARGS=--install, or pip install llama-cpp-python there; then "
      "remove the file and export again\n",
      nullptr};
}

}  // namespace

void require_gguf_verifiers() {
  for (const char* name : {"kha-engine", "kha-gguf-peer"}) peer_program(name);
}

ExportProof verify_gguf(const std::filesystem::path& model, const std::filesystem::path& file,
                        const GgufFile& written, const std::string& dtype,
                        const std::vector<std::string>& text) {
  const TemporaryFolder folder("verify");
  const auto ours = folder.path() / "ours.safetensors", texts = folder.path() / "texts.json",
             answer = folder.path() / "answer.json";
  const ModelConfig& config = written.plain.model;
  write_engine_logits(model, ours, config.max_position_embeddings, text);
  const auto tokenizer = open_model_tokenizer(model, config.vocab_size);
  write_file_atomically(
      texts, our_ids(*tokenizer, text, written.file.at("tokenizer").at("normalises")).dump());
  const int code =
      run_peer("kha-gguf-peer", {file.string(), ours.string(), texts.string(), answer.string()});
  if (code == not_installed) return no_proof();
  if (code != 0) fail_peer("kha-gguf-peer", code);
  Json found = read_answer(answer);
  const TypeLimits limits = limits_of(dtype.empty() ? config.dtype : dtype);
  const double limit = largest_allowed(found, limits);
  const bool same_text = found.at("continuation_agrees") || found.at("gap").get<double>() <= limit;
  const bool equal = found.at("from_float64").get<double>() <= limit &&
                     found.at("mean").get<double>() <= limits.mean && same_text &&
                     found.at("texts_differ").empty();
  found["limit"] = limit;
  found["mean_limit"] = limits.mean;
  found["equal"] = equal;
  return {equal, verdict(found, equal), found};
}

}  // namespace kha::cli
