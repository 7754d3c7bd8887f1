#include "core/config/open_tables.h"

#include <algorithm>
#include <cctype>

#include "kha/core/error.h"

namespace kha {
namespace {

// `rest` is what stands behind "knock.layers.".
void assign_layer(RunConfig& config, const std::string& key, const std::string& rest,
                  const toml::node& node, const std::string& where) {
  const auto dot = rest.find('.');
  const auto kind = node.value_exact<std::string>();
  const std::string layer = rest.substr(0, dot);
  const std::string slot = dot == std::string::npos ? "" : rest.substr(dot + 1);
  const bool digits = !layer.empty() && layer.find_first_not_of("0123456789") == std::string::npos;
  // One spelling a layer: "03" beside "3" would let one of two win unseen.
  const bool number = digits && layer.size() < 6 && (layer[0] != '0' || layer.size() == 1);
  if (!number || !kind || (slot != "q" && slot != "k" && slot != "v")) {
    fail({.what = "`" + key + "` does not name a map of a layer",
          .where = where,
          .expected = "[knock.layers.3] with q, k or v = \"none\", \"linear\", \"mlp\" or \"gate\"",
          .found = key});
  }
  config.knock.layers[layer][slot] = *kind;
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return std::isalnum(letter) || letter == '-' || letter == '_';
  });
}

// `name` is what stands behind "compare.variants."; the arms' folder takes it.
void assign_variant(RunConfig& config, const std::string& name, const toml::node& node,
                    const std::string& where) {
  const auto* list = node.as_array();
  const bool texts = list && std::all_of(list->begin(), list->end(),
                                         [](const toml::node& entry) { return entry.is_string(); });
  if (!texts || !is_folder_name(name)) {
    fail({.what = "`compare.variants." + name + "` does not describe a variant",
          .where = where,
          .expected = "a name of letters, digits, - and _, and a list of settings: "
                      "mqa = [\"model.num_key_value_heads=1\"]",
          .found = is_folder_name(name) ? "a value that is no list of texts" : name});
  }
  std::vector<std::string>& sets = config.compare.variants[name];
  sets.clear();
  for (const auto& entry : *list) sets.push_back(*entry.value_exact<std::string>());
}

// What stands behind `table`'s name and a dot; empty where the key is of another table.
std::string inside(const std::string& key, const std::string& table) {
  return key.rfind(table + ".", 0) == 0 ? key.substr(table.size() + 1) : "";
}

}  // namespace

bool assign_in_open_table(RunConfig& config, const std::string& key, const toml::node& node,
                          const std::string& where) {
  const std::string layer = inside(key, "knock.layers");
  if (!layer.empty()) {
    assign_layer(config, key, layer, node, where);
    return true;
  }
  const std::string variant = inside(key, "compare.variants");
  if (variant.empty()) return false;
  assign_variant(config, variant, node, where);
  return true;
}

}  // namespace kha
