#include "cli/export_gguf.h"

#include <fmt/format.h>

#include "cli/beside.h"
#include "cli/engine_logits.h"
#include "core/surgery/new_folder.h"
#include "kha/core/error.h"
#include "kha/core/model_tokenizer.h"

namespace kha::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void run_companion(const std::vector<std::string>& arguments) {
  const auto program = program_beside("kha-gguf-export");
  if (!program) {
    fail({.what = "writing GGUF needs kha-gguf-export, which is not installed beside kha",
          .next = "make build"});
  }
  const int code = run_child(*program, arguments);
  if (code == 0) return;
  fail({.what = "no GGUF file was written",
        .found = fmt::format("kha-gguf-export ended with exit code {}", code),
        .cause = "said above"});
}

// Before anything large is written. Bytes without a tokenizer.json need no check.
void check_tokenizer(const fs::path& model, int64_t vocab_size) {
  open_model_tokenizer(model, vocab_size);
  if (!fs::exists(model / "tokenizer.json")) return;
  run_companion({"--check-tokenizer", model.string(), "--rows", std::to_string(vocab_size)});
}

// A type that was asked for is rounded to from float32; the file's small tensors keep that.
ExportReport write_plain(const fs::path& model, const fs::path& plain, const std::string& dtype) {
  ExportOptions options;
  if (!dtype.empty()) options.dtype = DType::f32;
  ExportReport report = export_to_hugging_face(model, plain, options);
  if (!fs::exists(plain / "tokenizer.json")) {
    open_model_tokenizer(model, report.model.vocab_size)->save(plain);
  }
  return report;
}

std::string counted_types(const Json& types) {
  std::string text;
  for (const auto& [name, count] : types.items()) {
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", count.get<int64_t>(), name);
  }
  return text;
}

std::string tokenizer_line(const Json& tokenizer) {
  const auto unused = tokenizer.at("unused").get<int64_t>();
  return fmt::format("  tokenizer: pre {}, {} tokens{}, {} merges, begin mark {}\n",
                     tokenizer.at("pre").get<std::string>(), tokenizer.at("tokens").get<int64_t>(),
                     unused > 0 ? fmt::format(" ({} unused)", unused) : "",
                     tokenizer.at("merges").get<int64_t>(),
                     tokenizer.at("adds_bos").get<bool>() ? "added" : "not added");
}

}  // namespace

GgufFile export_to_gguf(const fs::path& model, const fs::path& out, const std::string& dtype) {
  require_free(out);
  check_tokenizer(model, read_model_config(model).vocab_size);
  NewFolder folder(out);
  const fs::path plain = folder.folder() / "plain", report = folder.folder() / "report.json";
  GgufFile written{write_plain(model, plain, dtype), {}};
  run_companion({plain.string(), (folder.folder() / "model.gguf").string(), "--dtype",
                 dtype.empty() ? written.plain.model.dtype : dtype, "--name", out.stem().string(),
                 "--report", report.string()});
  written.file = read_answer(report);
  folder.commit_file("model.gguf");
  return written;
}

std::string in_words(const GgufFile& written, const std::string& model, const std::string& out) {
  const Json& file = written.file;
  std::string text = fmt::format("exported {}\n", model);
  if (!written.plain.folded.empty()) {
    text += fmt::format("  folded on the way: {} linear map{}\n", written.plain.folded.size(),
                        written.plain.folded.size() == 1 ? "" : "s");
  }
  for (const auto& change : written.plain.changes) text += fmt::format("  {}\n", change);
  for (const auto& name : file.at("kept_float16")) {
    text +=
        fmt::format("  {} stays F16: its rows are no multiple of 32\n", name.get<std::string>());
  }
  text += tokenizer_line(file.at("tokenizer"));
  return text + fmt::format("wrote {}: {}, {} tensors ({}), {} bytes\n", out,
                            file.at("architecture").get<std::string>(),
                            file.at("tensors").get<int64_t>(), counted_types(file.at("types")),
                            file.at("bytes").get<int64_t>());
}

}  // namespace kha::cli
