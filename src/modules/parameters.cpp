#include "modules/parameters.h"

#include <ATen/Functions.h>
#include <c10/core/ScalarType.h>

#include <cassert>

namespace kha {
namespace {

// A router is computed in float32 at least: rounded scores would choose other experts.
bool of_router(const std::string& name) { return name.find(".mlp.gate.") != std::string::npos; }

}  // namespace

void Parameters::add(std::string name, at::Tensor value) {
  const bool fresh = index_.emplace(name, entries_.size()).second;
  assert(fresh && "a parameter is added once");
  (void)fresh;
  entries_.emplace_back(std::move(name), std::move(value));
}

const at::Tensor& Parameters::at(const std::string& name) const {
  return entries_[index_.at(name)].second;
}

at::Tensor Parameters::find(const std::string& name) const {
  const auto entry = index_.find(name);
  return entry == index_.end() ? at::Tensor() : entries_[entry->second].second;
}

Parameters Parameters::cast(at::ScalarType dtype) const {
  Parameters result;
  for (const auto& [name, value] : entries_) {
    result.add(name, value.to(of_router(name) ? c10::promoteTypes(dtype, at::kFloat) : dtype));
  }
  return result;
}

Parameters Parameters::to(at::Device device) const {
  Parameters result;
  for (const auto& [name, value] : entries_) result.add(name, value.to(device));
  return result;
}

}  // namespace kha
