// What the part with tensors is linked with, and whether it computes right.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/measured_text.h"
#include "kha/core/error.h"
#include "memory/caching_allocator.h"
#include "model/self_test/self_test.h"
#include "train/ceiling.h"
#include "train/device.h"
#include "train/memory_speed.h"
#include "train/what_ran.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  bool json = false, self_test = false;
};

std::string cuda_in_words() {
  try {
    open_device("cuda");
    return "usable";
  } catch (const Error& error) {
    return "not usable: " + error.diagnosis().what;
  }
}

Json facts() {
  Json json = what_ran({});
  for (const char* of_a_run : {"device", "precision", "linear_maps"}) json.erase(of_a_run);
  json["cuda"] = cuda_in_words();
  json["allocator"] = chosen_allocator();
  return json;
}

// Measured now, in about two seconds.
Json measured() {
  const auto round = [](const std::string& allocator) {
    const RoundCost cost = allocator_round(allocator);
    return Json{{"seconds", cost.seconds}, {"faults", cost.faults}};
  };
  const Ceiling one = measure_ceiling(1), all = measure_ceiling();
  return {{"ceiling",
           {{"instruction_set", all.instruction_set},
            {"threads", all.threads},
            {"one_thread_gflops", one.flops / 1e9},
            {"all_threads_gflops", all.flops / 1e9}}},
          {"read_bandwidth", read_bandwidth()},
          {"allocator_round", {{"system", round("system")}, {"caching", round("caching")}}}};
}

std::vector<CheckResult> self_test() {
  std::vector<Check> checks = operator_checks();
  for (auto& check : model_checks()) checks.push_back(std::move(check));
  return run_checks(checks);
}

Json to_json(const std::vector<CheckResult>& results) {
  Json json = Json::array();
  for (const auto& r : results) {
    json.push_back({{"name", r.name},
                    {"ok", r.ok},
                    {"figure", r.measured.figure},
                    {"limit", r.measured.limit}});
    if (!r.error.empty()) json.back()["error"] = r.error;
  }
  return json;
}

void print_line(const CheckResult& r) {
  const std::string figures = r.error.empty()
                                  ? fmt::format("largest difference {:.2g}, limit {:.2g}",
                                                r.measured.figure, r.measured.limit)
                                  : r.error;
  fmt::print("{:6} {:36} {}\n", r.ok ? "ok" : "FAILED", r.name, figures);
}

void print_text(const Json& facts, const std::vector<CheckResult>& results) {
  fmt::print("engine       kha {}, torch {}, {}, {} threads\n", facts.at("kha").get<std::string>(),
             facts.at("torch").get<std::string>(), facts.at("cpu").get<std::string>(),
             facts.at("threads").get<std::string>());
  fmt::print("knock maps   {}\n", facts.at("knock").get<std::string>());
  fmt::print("cuda         {}\n", facts.at("cuda").get<std::string>());
  fmt::print("{}", measured_in_words(facts));
  for (const auto& result : results) print_line(result);
}

int run(const Arguments& a) {
  const std::vector<CheckResult> results = a.self_test ? self_test() : std::vector<CheckResult>();
  Json all = facts();
  all.update(measured());
  const auto failed =
      std::count_if(results.begin(), results.end(), [](const auto& r) { return !r.ok; });
  if (a.json) {
    if (a.self_test) all.update({{"ok", failed == 0}, {"self_test", to_json(results)}});
    fmt::print("{}\n", all.dump(2));
  } else {
    print_text(all, results);
    if (a.self_test)
      fmt::print("{}\n", failed ? fmt::format("{} checks FAILED", failed) : "all checks hold");
  }
  return failed ? static_cast<int>(ExitCode::check_failed) : 0;
}

}  // namespace

Command doctor_engine_command() {
  return {"doctor", "what the engine is linked with, and whether it computes right",
          [](CLI::App& app) {
            auto a = std::make_shared<Arguments>();
            app.add_flag("--self-test", a->self_test,
                         "compute small cases and compare them with the reference");
            add_json_option(app, a->json);
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
