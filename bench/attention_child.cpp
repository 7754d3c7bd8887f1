// Causal attention by kha's kernels and by torch's, in one process at bench/attention.py's word:
// one command a line, one JSON object a line back.
//   case B T S H KV D D_V   makes the inputs; back: each one's largest difference from double
//   kha, torch              one forward and one backward pass; back: their seconds
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kha/ops/cpu_implementation.h"
#include "modules/causal.h"

namespace {

using at::Tensor;
using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Case {
  Tensors inputs;  // queries, keys, values
  Tensor grad;

  explicit Case(std::istream& in) {
    int64_t batch, length, positions, heads, kv_heads, width, value_width;
    in >> batch >> length >> positions >> heads >> kv_heads >> width >> value_width;
    at::manual_seed(1);
    inputs = {at::randn({batch, length, heads, width}),
              at::randn({batch, positions, kv_heads, width}),
              at::randn({batch, positions, kv_heads, value_width})};
    grad = at::randn({batch, length, heads, value_width});
  }
};

struct Pass {
  Tensors results;  // y, dq, dk, dv
  double forward = 0, backward = 0;
};

Pass run(const Case& c, at::ScalarType type) {
  Tensors leaves;
  for (const Tensor& x : c.inputs) leaves.push_back(x.to(type).detach().requires_grad_());
  const Tensor grad = c.grad.to(type);
  Pass pass;
  Tensor y;
  pass.forward = seconds_of([&] { y = kha::causal_attention(leaves[0], leaves[1], leaves[2]); });
  pass.backward = seconds_of([&] { torch::autograd::backward({y}, {grad}); });
  pass.results = {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  return pass;
}

Pass run_with(const std::string& implementation, const Case& c) {
  kha::ops::set_cpu_implementation(implementation);
  return run(c, at::kFloat);
}

// Not a number, which JSON writes as null, where one of them is.
double largest_difference(const Pass& pass, const Pass& right) {
  double largest = 0;
  for (size_t i = 0; i < right.results.size(); ++i) {
    const double size = right.results[i].abs().max().item<double>();
    const double off = (pass.results[i] - right.results[i]).abs().max().item<double>();
    if (std::isnan(off)) return off;
    largest = std::max(largest, off / size);
  }
  return largest;
}

Json answer(const std::string& line, std::optional<Case>& present) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "case") {
    present.emplace(words);
    const Pass right = run(*present, at::kDouble);
    return {
        {"kha", largest_difference(run_with("auto", *present), right)},
        {"torch", largest_difference(run_with("aten", *present), right)},
        {"kernels", (kha::ops::set_cpu_implementation("auto"), kha::ops::cpu_implementation())}};
  }
  const Pass pass = run_with(command == "kha" ? "auto" : "aten", present.value());
  return {{"forward", pass.forward}, {"backward", pass.backward}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) at::set_num_threads(std::stoi(argv[1]));
  std::cout << Json{{"threads", at::get_num_threads()}} << std::endl;
  std::optional<Case> present;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(line, present) << std::endl;
  }
}
