// Whether the sizes of a mixture make a model.
#include <fmt/format.h>

#include "core/description/expert_keys.h"
#include "core/description/require.h"

namespace kha {
namespace {

void require_experts(bool good, const std::string& where, const std::string& key,
                     const std::string& value, const std::string& expected) {
  require(good, where, "experts." + key, value, expected);
}

void require_between(int64_t value, int64_t least, int64_t most, const std::string& where,
                     const std::string& key) {
  require_experts(value >= least && value <= most, where, key, std::to_string(value),
                  fmt::format("a whole number from {} to {}", least, most));
}

void validate_dense(const ExpertConfig& e, const std::string& where) {
  const std::pair<const char*, int64_t> sizes[] = {{"active", e.active},
                                                   {"width", e.width},
                                                   {"shared", e.shared},
                                                   {"first_dense", e.first_dense}};
  for (const auto& [key, value] : sizes) {
    if (value == 0) continue;
    fail({.what = fmt::format("`experts.{}` is given, but the model has no experts", key),
          .where = where,
          .expected = "experts.count of 1 or more",
          .found = fmt::format("experts.count {}, experts.{} {}", e.count, key, value),
          .next = "set experts.count, or remove the key"});
  }
}

// A group has two experts at least where its score is a sum of two.
void validate_groups(const ExpertConfig& e, const std::string& where) {
  require_between(e.groups, 1, e.count, where, "groups");
  require_experts(e.count % e.groups == 0, where, "groups", std::to_string(e.groups),
                  fmt::format("a divisor of the {} experts", e.count));
  require_between(e.open_groups, 1, e.groups, where, "open_groups");
  if (e.groups == 1) return;
  const int64_t size = e.count / e.groups;
  require_experts(e.router == "softmax" || size > 1, where, "groups", std::to_string(e.groups),
                  "groups of at least 2 experts: a group's score is the sum of two");
  require_experts(
      e.active <= e.open_groups * size, where, "active", std::to_string(e.active),
      fmt::format("at most {}, the experts of {} groups", e.open_groups * size, e.open_groups));
}

}  // namespace

void validate_experts(const ModelConfig& config, const std::string& where) {
  const ExpertConfig& e = config.experts;
  constexpr int64_t most_experts = 1 << 16, most_size = int64_t{1} << 24;
  require_between(e.count, 0, most_experts, where, "count");
  if (e.count == 0) return validate_dense(e, where);
  require_between(e.active, 1, e.count, where, "active");
  require_between(e.width, 1, most_size, where, "width");
  require_between(e.shared, 0, most_experts, where, "shared");
  require_experts(e.shared * e.width <= most_size, where, "shared",
                  fmt::format("{} experts of width {}", e.shared, e.width),
                  fmt::format("at most {} rows together", most_size));
  require_between(e.first_dense, 0, config.num_hidden_layers, where, "first_dense");
  require_experts(e.router == "sigmoid" || e.router == "softmax", where, "router", e.router,
                  "sigmoid or softmax");
  validate_groups(e, where);
  require_experts(e.scaling > 0 && e.scaling <= 1000, where, "scaling",
                  fmt::format("{}", e.scaling), "a number above 0, at most 1000");
}

}  // namespace kha
