// Writes the parity table for Python: `kha_case_table FILE`, opened there by torch.load.
//
// A list of (operator, case, arguments, gradient of the result, wanted, allowed errors): the cases
// of tests/ops/cases.h, what the double reference makes of them, and how far a result may be off.
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdio>
#include <fstream>

#include "ops/operators.h"
#include "ops/tolerance.h"

namespace kha::test {
namespace {

c10::IValue entry(const std::string& name, const std::string& text, const Tensors& arguments,
                  const at::Tensor& grad, const Tensors& torch, const Tensors& want,
                  at::ScalarType dtype) {
  c10::List<double> allowed;
  for (std::size_t i = 0; i < want.size(); ++i) {
    allowed.push_back(allowed_error(dtype, torch[i], want[i]));
  }
  return c10::ivalue::Tuple::create(
      {name, text, c10::List<at::Tensor>(arguments), grad, c10::List<at::Tensor>(want), allowed});
}

std::vector<c10::IValue> case_table() {
  std::vector<c10::IValue> table;
  for (const Operator& op : all_operators()) {
    for (const Case& c : all_cases()) {
      at::manual_seed(11);
      const Tensors arguments = op.arguments(c);
      const at::Tensor grad = at::randn_like(op.compose(arguments)).contiguous();
      const Tensors torch = run(op.compose, arguments, grad);
      const Tensors want = op.reference(in_double(arguments), in_double({grad})[0]);
      table.push_back(entry(op.name, c.name(), arguments, grad, torch, want, c.dtype));
    }
  }
  return table;
}

}  // namespace
}  // namespace kha::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "kha_case_table: name the file to write\n");
    return 2;
  }
  const auto table = kha::test::case_table();
  const std::vector<char> bytes =
      torch::jit::pickle_save(c10::ivalue::Tuple::create(std::vector<c10::IValue>(table)));
  std::ofstream file(argv[1], std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.flush() ? 0 : 1;
}
