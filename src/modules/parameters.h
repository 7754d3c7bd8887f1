// The tensors of a model by checkpoint name, in the order of parameter_table.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kha {

class Parameters {
 public:
  void add(std::string name, at::Tensor value);

  // The tensor of that name; asking for one that is not there is a bug.
  const at::Tensor& at(const std::string& name) const;
  // An undefined tensor when there is none (optional biases).
  at::Tensor find(const std::string& name) const;
  const std::vector<std::pair<std::string, at::Tensor>>& entries() const& { return entries_; }
  // Of a temporary they would be gone before a loop over them begins.
  void entries() const&& = delete;

  // The same tensors in another dtype, as differentiable casts; themselves where it is theirs.
  // Those of routers stay float32 where the dtype is narrower.
  Parameters cast(at::ScalarType dtype) const;
  Parameters to(at::Device device) const;

 private:
  std::vector<std::pair<std::string, at::Tensor>> entries_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace kha
