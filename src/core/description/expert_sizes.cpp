#include "core/description/expert_sizes.h"

#include <fmt/format.h>

namespace kha {

void read_one_of(ObjectReader& in, std::initializer_list<const char*> names, int64_t& value) {
  const char* found = nullptr;
  for (const char* name : names) {
    if (!in.find(name)) continue;
    int64_t own = 0;
    in.read(name, own);
    if (found && own != value) {
      in.refuse(fmt::format("`{}` and `{}` contradict each other", found, name),
                "one number of experts", fmt::format("{} and {}", value, own));
    }
    value = own;
    found = name;
  }
  if (!found) in.require(*names.begin(), "a whole number");
}

void read_groups(ObjectReader& in, ExpertConfig& e) {
  in.read("n_group", e.groups);
  in.read("topk_group", e.open_groups);
}

}  // namespace kha
