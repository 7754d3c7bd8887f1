// What this machine and this build can do, and whether the part with tensors starts.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/beside.h"
#include "cli/commands.h"
#include "cli/measured_text.h"
#include "kha/core/captured_run.h"
#include "kha/core/error.h"
#include "kha/core/machine_facts.h"
#include "kha/core/version.h"
#include "kha/kernels/cpu_features.h"
#include "kha/kernels/instruction_set.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

#if defined(__clang__)
constexpr const char* compiler = __VERSION__;  // names itself
#else
constexpr const char* compiler = "gcc " __VERSION__;
#endif

struct Arguments {
  bool json = false, self_test = false;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Json not_starting(const std::string& reason) {
  return {{"found", true}, {"starts", false}, {"reason", reason}};
}

// What kha-engine says of itself, or why it says nothing.
Json engine_facts() {
  const auto engine = program_beside("kha-engine");
  if (!engine) return {{"found", false}};
  try {
    const CapturedRun run = run_captured(*engine, {"doctor", "--json"});
    Json facts = Json::parse(run.output, nullptr, /*allow_exceptions=*/false);
    if (run.exit_code != 0 || !facts.is_object()) {
      const std::string said = first_line(run.errors);
      return not_starting(said.empty()
                              ? fmt::format("it left with code {} and said nothing", run.exit_code)
                              : said);
    }
    facts.update({{"found", true}, {"starts", true}});
    return facts;
  } catch (const Error& error) {
    return not_starting(error.diagnosis().what + ": " + error.diagnosis().found);
  }
}

// The reference, and the instruction sets whose kernels this processor runs.
Json kernel_names() {
  Json names{"reference"};
  for (InstructionSet set : all_instruction_sets) {
    if (is_usable(set)) names.push_back(to_string(set));
  }
  return names;
}

Json all_facts() {
  const MachineFacts machine = machine_facts();
  const CpuFeatures cpu = cpu_features();
  return {{"kha", version()},
          {"compiler", compiler},
          {"cpu",
           {{"model", machine.cpu},
            {"cores", machine.cores},
            {"avx2_fma", cpu.avx2_fma},
            {"avx512", cpu.avx512},
            {"avx512_bf16", cpu.avx512_bf16},
            {"amx_bf16", cpu.amx_bf16}}},
          {"memory_bytes", machine.memory},
          {"huge_pages", machine.huge_pages},
          {"kernels", kernel_names()},
          {"engine", engine_facts()}};
}

std::string in_words(const Json& cpu) {
  std::string text;
  const auto add = [&](const char* key, const char* name) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                        cpu.at(key).get<bool>() ? "yes" : "no");
  };
  add("avx2_fma", "AVX2+FMA");
  add("avx512", "AVX-512");
  add("avx512_bf16", "AVX512_BF16");
  add("amx_bf16", "AMX");
  return text;
}

std::string engine_in_words(const Json& engine) {
  if (!engine.at("found").get<bool>()) {
    return "no kha-engine beside this program: what needs tensors does not run; make build";
  }
  if (!engine.at("starts").get<bool>()) {
    return fmt::format("kha-engine does not start: {}", engine.at("reason").get<std::string>());
  }
  return fmt::format("kha-engine beside this program, torch {}, {}, {} threads",
                     engine.value("torch", "unknown"), engine.value("cpu", "unknown"),
                     engine.value("threads", "unknown"));
}

void print_text(const Json& facts) {
  const Json &cpu = facts.at("cpu"), &engine = facts.at("engine");
  fmt::print("kha          {}, built with {}\n", facts.at("kha").get<std::string>(), compiler);
  fmt::print("cpu          {}, {} cores usable\n", cpu.at("model").get<std::string>(),
             cpu.at("cores").get<int>());
  fmt::print("             {}\n", in_words(cpu));
  fmt::print("memory       {:.1f} GiB; transparent huge pages: {}\n",
             facts.at("memory_bytes").get<double>() / (1 << 30),
             facts.at("huge_pages").get<std::string>());
  std::string sets;
  for (const auto& name : facts.at("kernels"))
    sets += (sets.empty() ? "" : ", ") + name.get<std::string>();
  fmt::print(
      "kernels      {} (reference: plain loops in double, what the others are tested against)\n",
      sets);
  fmt::print("engine       {}\n", engine_in_words(engine));
  if (!engine.value("starts", false)) return;
  fmt::print("knock maps   {} (float32 on the CPU; KHA_CPU=NAME chooses)\n",
             engine.value("knock", "unknown"));
  fmt::print("cuda         {}\n", engine.value("cuda", "unknown"));
  fmt::print("{}", measured_in_words(engine));
  fmt::print(
      "next         kha doctor --self-test computes small cases and compares them with the "
      "reference\n");
}

int run(const Arguments& a) {
  const Json facts = all_facts();
  if (a.json)
    fmt::print("{}\n", facts.dump(2, ' ', false, Json::error_handler_t::replace));
  else
    print_text(facts);
  const Json& engine = facts.at("engine");
  const bool broken = engine.at("found").get<bool>() && !engine.at("starts").get<bool>();
  return broken ? static_cast<int>(ExitCode::check_failed) : 0;
}

}  // namespace

Command doctor_command() {
  return {"doctor", "what this machine and this build can do", [](CLI::App& app) {
            auto a = std::make_shared<Arguments>();
            // For the help: a call with it is handed to kha-engine before it gets here.
            app.add_flag("--self-test", a->self_test,
                         "compute small cases and compare them with the reference");
            add_json_option(app, a->json);
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
