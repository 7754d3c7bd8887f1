// kha export: a model as a folder that other programs open unchanged.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/export_gguf.h"
#include "cli/left_out.h"
#include "cli/verify_export.h"
#include "cli/verify_gguf.h"
#include "kha/core/error.h"
#include "kha/core/export.h"
#include "kha/core/model_folder.h"

namespace kha::cli {
namespace {

// Exit code of `--verify` where the other program is not installed: scripts that go on after a
// check must not take a file that was never checked for one that passed.
constexpr int not_verified = 3;

struct Options {
  std::string model, out, to, dtype;
  ExportOptions how;
  bool verify = false, json = false;
  std::vector<std::string> text;  // of the verification
};

const std::map<std::string, DType> types{
    {"float32", DType::f32}, {"bfloat16", DType::bf16}, {"float16", DType::f16}};

void check(const Options& options) {
  if (options.to != "hf" && options.to != "gguf") {
    fail({.what = "there is no export of this name",
          .where = "--to",
          .expected = "hf: a folder that transformers opens; gguf: a file that llama.cpp opens",
          .found = options.to});
  }
  if (options.to == "gguf" && options.how.keep_maps) {
    fail({.what = "llama.cpp has no maps to keep",
          .where = "--keep-maps",
          .expected = "--to hf",
          .next = "leave the option out: linear maps are folded"});
  }
  if (options.to == "hf" && options.dtype == "q8_0") {
    fail({.what = "q8_0 is a type of GGUF files alone",
          .where = "--dtype",
          .expected = "float32, bfloat16 or float16",
          .next = "kha export MODEL OUT.gguf --to gguf --dtype q8_0"});
  }
}

std::string folded_line(const ExportReport& report) {
  return report.folded.empty()
             ? ""
             : fmt::format("  folded on the way: {} linear map{}\n", report.folded.size(),
                           report.folded.size() == 1 ? "" : "s");
}

std::string form_line(const ExportReport& report) {
  if (report.why_model_file.empty()) return "  a plain model: opens without further code\n";
  return fmt::format(
      "  a kha model with its model file, because {}; in transformers: "
      "from_pretrained(FOLDER, trust_remote_code=True)\n",
      report.why_model_file);
}

void print_warnings(const ExportReport& report) {
  for (const auto& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
}

void print_report(const Options& options, const ExportReport& report) {
  print_warnings(report);
  fmt::print("exported {}\n{}", options.model, folded_line(report));
  for (const auto& change : report.changes) fmt::print("  {}\n", change);
  print_left_out(report.left_out);
  fmt::print("wrote {}: {}, {}, {} bytes of tensors in {} file{}\n", options.out,
             report.architecture.class_name, report.model.dtype, report.bytes, report.files,
             report.files == 1 ? "" : "s");
  fmt::print("{}", form_line(report));
  for (const auto& check : report.checks) fmt::print("  {}\n", check);
}

nlohmann::ordered_json report_json(const Options& options, const ExportReport& report) {
  return {{"model", options.model},
          {"out", options.out},
          {"model_type", report.architecture.model_type},
          {"architecture", report.architecture.class_name},
          {"dtype", report.model.dtype},
          {"trust_remote_code", !report.why_model_file.empty()},
          {"why_model_file", report.why_model_file},
          {"files", report.files},
          {"bytes", report.bytes},
          {"folded", report.folded.size()},
          {"changes", report.changes},
          {"checks", report.checks},
          {"warnings", report.warnings},
          {"left_out", report.left_out},
          {"verification", nullptr}};
}

nlohmann::ordered_json gguf_json(const Options& options, const GgufFile& written) {
  nlohmann::ordered_json json = written.file;
  json.update({{"model", options.model},
               {"out", options.out},
               {"folded", written.plain.folded.size()},
               {"changes", written.plain.changes},
               {"verification", nullptr}});
  return json;
}

int run_gguf(const Options& options) {
  const GgufFile written = export_to_gguf(options.model, options.out, options.dtype);
  print_warnings(written.plain);
  for (const auto& warning : written.file.at("warnings")) {
    fmt::print(stderr, "warning: {}\n", warning.get<std::string>());
  }
  if (!options.json) fmt::print("{}", in_words(written, options.model, options.out));
  std::fflush(stdout);
  ExportProof proof{true, "not verified: --verify loads it in llama.cpp\n", nullptr};
  if (options.verify) {
    proof = verify_gguf(options.model, options.out, written, options.dtype, options.text);
  }
  auto json = gguf_json(options, written);
  json["verification"] = proof.json;
  fmt::print("{}", options.json ? json.dump(2) + "\n" : proof.text);
  if (options.verify && proof.json.is_null()) {
    if (options.json) fmt::print(stderr, "{}", proof.text);
    return not_verified;
  }
  return static_cast<int>(proof.equal ? ExitCode::good : ExitCode::check_failed);
}

int run(Options options) {
  check(options);
  if (options.verify) options.to == "gguf" ? require_gguf_verifiers() : require_verifiers();
  options.model = resolve_model_folder(options.model).string();
  if (options.to == "gguf") return run_gguf(options);
  if (!options.dtype.empty()) options.how.dtype = types.at(options.dtype);
  const ExportReport report = export_model(options.model, options.out, options.how);
  if (!options.json) print_report(options, report);
  std::fflush(stdout);
  std::optional<ExportProof> proof;
  if (options.verify) {
    proof = verify_export(options.model, options.out, report, options.text);
  }
  if (options.json) {
    auto json = report_json(options, report);
    if (proof) json["verification"] = proof->json;
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", proof ? proof->text : "not verified: --verify loads it in transformers\n");
  }
  return static_cast<int>(proof && !proof->equal ? ExitCode::check_failed : ExitCode::good);
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a model folder, or a run (its latest checkpoint)")
      ->required();
  app.add_option("OUT", options->out, "the new folder, or the new .gguf file")->required();
  app.add_option("--to", options->to,
                 "hf: a folder that transformers opens unchanged; gguf: one file for llama.cpp")
      ->required();
  app.add_option("--dtype", options->dtype,
                 "type of the tensors written; none: as stored; q8_0: of GGUF only")
      ->check(CLI::IsMember(std::vector<std::string>{"float32", "bfloat16", "float16", "q8_0"}));
  app.add_option("--shard-size", options->how.shard_size, "bytes of tensors a file, e.g. 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();
  app.add_flag("--keep-maps", options->how.keep_maps,
               "do not fold linear maps: a model with its model file (trust_remote_code)");
  CLI::Option* verify = app.add_flag(
      "--verify", options->verify,
      "load the result in transformers or llama.cpp and compare log-probabilities and greedy text; "
      "exit code 1: not equal, 3: llama-cpp-python is not installed");
  app.add_option("--text", options->text,
                 "a text file or folder to verify on, may be repeated; none: a file of the model")
      ->needs(verify)
      ->allow_extra_args(false);
  add_json_option(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace

Command export_command() {
  return {"export", "write a model as one that other programs open (transformers, llama.cpp)", add};
}

}  // namespace kha::cli
