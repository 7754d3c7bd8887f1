// Forward and backward of one layer's mixture and of a dense feed-forward with as many active
// parameters, in turns. One JSON object on standard output.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "kha/core/error.h"
#include "modules/experts/mixture.h"

namespace kha::cli {
namespace {

struct Arguments {
  int64_t experts = 64, active = 4, width = 384, hidden = 512, tokens = 8192;
  int64_t rounds = 5, threads = 0;
};

at::Tensor matrix(std::vector<int64_t> shape) { return (at::randn(shape) * 0.02).requires_grad_(); }

// Router and experts; the choice follows the logits of random weights, so the load is as uneven as
// at the start of a training.
Parameters mixture_parameters(const Arguments& a) {
  Parameters p;
  p.add("gate.weight", matrix({a.experts, a.hidden}));
  p.add("gate.e_score_correction_bias", at::zeros({a.experts}));
  p.add("experts.gate_proj", matrix({a.experts, a.width, a.hidden}));
  p.add("experts.up_proj", matrix({a.experts, a.width, a.hidden}));
  p.add("experts.down_proj", matrix({a.experts, a.hidden, a.width}));
  return p;
}

Parameters dense_parameters(const Arguments& a) {
  const int64_t width = a.active * a.width;
  Parameters p;
  p.add("gate_proj.weight", matrix({width, a.hidden}));
  p.add("up_proj.weight", matrix({width, a.hidden}));
  p.add("down_proj.weight", matrix({a.hidden, width}));
  return p;
}

template <class Block>
double seconds_of(const Block& block, const at::Tensor& x, const at::Tensor& grad,
                  const Parameters& parameters) {
  for (const auto& [name, value] : parameters.entries()) at::Tensor(value).mutable_grad().reset();
  at::Tensor(x).mutable_grad().reset();
  const auto begin = std::chrono::steady_clock::now();
  block(x).backward(grad);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(const Arguments& a) {
  if (a.active > a.experts) {
    fail({.what = "a token cannot have more experts than there are",
          .where = "--active",
          .expected = fmt::format("at most {}", a.experts),
          .found = std::to_string(a.active)});
  }
  if (a.threads > 0) at::set_num_threads(static_cast<int>(a.threads));
  at::manual_seed(1);
  const ExpertConfig config{.count = a.experts, .active = a.active, .width = a.width};
  const Parameters sparse = mixture_parameters(a), dense = dense_parameters(a);
  const auto record = std::make_shared<RouterRecord>(1);
  const Mixture mixture(config, sparse, "", 0, record);
  const FeedForward feed_forward(dense, "");
  const at::Tensor x = at::randn({1, a.tokens, a.hidden}).requires_grad_();
  const at::Tensor grad = at::randn({1, a.tokens, a.hidden});
  nlohmann::ordered_json of_mixture, of_dense;
  for (int64_t round = -1; round < a.rounds; ++round) {
    double mixture_seconds = 0, dense_seconds = 0;
    const auto measure_mixture = [&] { mixture_seconds = seconds_of(mixture, x, grad, sparse); };
    const auto measure_dense = [&] { dense_seconds = seconds_of(feed_forward, x, grad, dense); };
    const bool mixture_first = round % 2 == 0;  // drift favours none
    if (mixture_first) measure_mixture();
    measure_dense();
    if (!mixture_first) measure_mixture();
    if (round < 0) continue;  // the first warms up
    of_mixture.push_back(mixture_seconds);
    of_dense.push_back(dense_seconds);
  }
  // Of the experts' or the feed-forward's products alone, which are as many; the router's are its
  // own business.
  const double flops = 18.0 * static_cast<double>(a.tokens * a.active * a.width * a.hidden);
  const nlohmann::ordered_json result{{"threads", at::get_num_threads()},
                                      {"useful_flops", flops},
                                      {"largest_load", record->counts[0].max().item<int64_t>()},
                                      {"smallest_load", record->counts[0].min().item<int64_t>()},
                                      {"mixture_seconds", of_mixture},
                                      {"dense_seconds", of_dense}};
  fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace

Command bench_experts_command() {
  return {
      "bench-experts", "a mixture of experts against a dense feed-forward, for bench/experts.py",
      [](CLI::App& app) {
        auto a = std::make_shared<Arguments>();
        const auto size = CLI::Range(int64_t{1}, int64_t{1} << 20);
        app.add_option("--experts", a->experts)->check(size)->capture_default_str();
        app.add_option("--active", a->active)->check(size)->capture_default_str();
        app.add_option("--width", a->width, "of one expert")->check(size)->capture_default_str();
        app.add_option("--hidden", a->hidden)->check(size)->capture_default_str();
        app.add_option("--tokens", a->tokens)->check(size)->capture_default_str();
        app.add_option("--rounds", a->rounds)->check(size)->capture_default_str();
        app.add_option("--threads", a->threads, "0: one a core")->capture_default_str();
        return [a] { return run(*a); };
      }};
}

}  // namespace kha::cli
