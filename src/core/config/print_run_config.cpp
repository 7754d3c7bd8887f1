// A run's fields as TOML, and those in which two runs differ.
#include <fmt/format.h>

#include "core/config/field_text.h"
#include "kha/core/run_config.h"

namespace kha {

std::string to_toml(const RunConfig& config) {
  RunConfig copy = config;
  std::string out, section;
  for (const Field& field : run_fields(copy)) {
    const auto dot = field.key.rfind('.');
    const std::string table = field.key.substr(0, dot);
    if (table != section) {
      out += (out.empty() ? "[" : "\n[") + table + "]\n";
      section = table;
    }
    out += fmt::format("{} = {}  # {}\n", field.key.substr(dot + 1), value_text(field.value),
                       field.help);
  }
  for (const auto& [layer, slots] : config.knock.layers) {
    out += "\n[knock.layers." + layer + "]\n";
    for (const auto& [slot, kind] : slots) out += slot + " = " + quoted(kind) + "\n";
  }
  if (!config.compare.variants.empty()) out += "\n[compare.variants]\n";
  for (const auto& [name, sets] : config.compare.variants) {
    std::vector<std::string> texts = sets;
    out += fmt::format("{} = {}\n", name, value_text(&texts));
  }
  return out;
}

std::vector<ChangedField> changed_fields(const RunConfig& before, const RunConfig& after) {
  RunConfig a = before, b = after;
  const auto old_fields = run_fields(a), new_fields = run_fields(b);
  std::vector<ChangedField> changes;
  for (size_t i = 0; i < old_fields.size(); ++i) {
    const std::string was = value_text(old_fields[i].value), is = value_text(new_fields[i].value);
    if (was != is) changes.push_back({old_fields[i].key, was, is, old_fields[i].on_resume});
  }
  if (before.knock.layers != after.knock.layers) {
    changes.push_back({"knock.layers", "other layers", "these layers", OnResume::refused});
  }
  return changes;
}

}  // namespace kha
