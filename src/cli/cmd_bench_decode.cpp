// Decode steps of one layer's attention on demand, for scripts/bench: a full cache, one token more.
// One command a line on standard input, one JSON object a line back.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "kha/core/byte_tokenizer.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "model/decode_bench.h"
#include "model/initialise.h"
#include "model/model_io.h"
#include "train/device.h"

namespace kha::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  RunArguments run;
  int64_t positions = 4096, batch = 1;
  std::string kv_cache = "model";
};

void answer(const ordered_json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

ordered_json make_steps(DecodeBench& bench, int64_t count, const std::string& form) {
  ordered_json seconds;
  at::Tensor output;
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    output = bench.step(form).to(at::kCPU);  // and so done, on any device
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  ordered_json line{{"seconds", seconds}, {"cache_bytes", bench.cache_bytes(form)}};
  const at::Tensor flat = output.flatten();
  line["output"] =
      std::vector<float>(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  return line;
}

ordered_json obey(const std::string& line, const ModelConfig& config, const Parameters& parameters,
                  DecodeBench& bench) {
  const size_t blank = line.find(' ');
  const std::string word = line.substr(0, blank);
  const std::string rest = blank == std::string::npos ? "" : line.substr(blank + 1);
  if (word == "save" && !rest.empty()) {
    std::filesystem::create_directories(rest);
    write_model(rest, config, parameters, *byte_tokenizer());
    return {{"saved", rest}};
  }
  const size_t second = rest.find(' ');
  const std::string number = rest.substr(0, second);
  const bool counts = !number.empty() && number.size() < 7 &&
                      number.find_first_not_of("0123456789") == std::string::npos;
  if (word == "steps" && counts && second != std::string::npos) {
    return make_steps(bench, std::stoll(number), rest.substr(second + 1));
  }
  fail({.what = "bench-decode does not know this command",
        .where = "standard input",
        .expected = "steps N FORM, save FOLDER or quit",
        .found = line});
}

int run(const Arguments& arguments) {
  RunConfig config = read_run(arguments.run);
  config.model.num_hidden_layers = 1;
  config.model.vocab_size = 257;
  config.model.max_position_embeddings = arguments.positions + 1;
  validate(config.model, "the model");
  if (config.train.threads > 0) at::set_num_threads(static_cast<int>(config.train.threads));
  const at::Device device = open_device(config.train.device);
  const Parameters parameters = initialise(config.model, KnockStart::identity, config.run.seed);
  const at::NoGradGuard no_grad;
  DecodeBench bench(config.model, parameters.to(device), arguments.batch, arguments.positions,
                    parse_kv_cache_kind(arguments.kv_cache, "--kv-cache"));
  answer({{"ready", true},
          {"forms", bench.forms()},
          {"positions", arguments.positions},
          {"batch", arguments.batch},
          {"threads", at::get_num_threads()},
          {"device", device.is_cuda() ? "cuda" : "cpu"},
          {"flops", static_cast<double>(arguments.batch) *
                        attention_decode_flops(config.model, arguments.positions + 1)}});
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    answer(obey(line, config.model, parameters, bench));
  }
  return 0;
}

}  // namespace

Command bench_decode_command() {
  return {"bench-decode", "decode steps of one attention on demand, for scripts/bench",
          [](CLI::App& app) {
            auto a = std::make_shared<Arguments>();
            add_run_options(app, a->run);
            app.add_option("--positions", a->positions, "positions in the cache")
                ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
                ->capture_default_str();
            app.add_option("--batch", a->batch, "sequences")
                ->check(CLI::Range(int64_t{1}, int64_t{1} << 12))
                ->capture_default_str();
            app.add_option("--kv-cache", a->kv_cache, "model or int8")->capture_default_str();
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
