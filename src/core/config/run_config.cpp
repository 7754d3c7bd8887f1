#include "kha/core/run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

std::string at_line(const std::string& where, const toml::source_region& source) {
  return source.begin ? fmt::format("{}, line {}", where, source.begin.line) : where;
}

// A table of tables as one list of "a.b.c" -> value.
void flatten(const toml::table& table, const std::string& prefix,
             std::vector<std::pair<std::string, const toml::node*>>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key) : prefix + "." + std::string(key);
    const auto* inner = node.as_table();
    if (inner && !inner->empty()) {
      flatten(*inner, name, out);
    } else {
      out.emplace_back(name, &node);
    }
  }
}

[[noreturn]] void wrong_type(const Field& field, const std::string& where,
                             const std::string& expected, const toml::node& found) {
  std::stringstream text;
  found.visit([&](const auto& value) { text << value; });
  fail({.what = "`" + field.key + "` has the wrong type",
        .where = where,
        .expected = expected + " (" + field.help + ")",
        .found = text.str()});
}

struct Assign {
  const Field& field;
  const toml::node& node;
  const std::string& where;

  void operator()(int64_t* value) const {
    const auto whole = node.value_exact<int64_t>();
    if (!whole) wrong_type(field, where, "a whole number", node);
    *value = *whole;
  }
  void operator()(double* value) const {
    const auto number = node.is_number() ? node.value<double>() : std::optional<double>{};
    if (!number) wrong_type(field, where, "a number", node);
    *value = *number;
  }
  void operator()(bool* value) const {
    const auto flag = node.value_exact<bool>();
    if (!flag) wrong_type(field, where, "true or false", node);
    *value = *flag;
  }
  void operator()(std::string* value) const {
    const auto text = node.value_exact<std::string>();
    if (!text) wrong_type(field, where, "a text in quotes", node);
    *value = *text;
  }
  void operator()(std::vector<double>* value) const {
    const auto* list = node.as_array();
    if (!list) wrong_type(field, where, "a list of numbers", node);
    value->clear();
    for (const auto& entry : *list) {
      const auto number = entry.is_number() ? entry.value<double>() : std::optional<double>{};
      if (!number) wrong_type(field, where, "a list of numbers", node);
      value->push_back(*number);
    }
  }
  void operator()(std::vector<std::string>* value) const {
    const auto* list = node.as_array();
    if (!list) wrong_type(field, where, "a list of texts", node);
    value->clear();
    for (const auto& entry : *list) {
      const auto text = entry.value_exact<std::string>();
      if (!text) wrong_type(field, where, "a list of texts", node);
      value->push_back(*text);
    }
  }
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);  // shortest text that reads back equal
  const bool whole = text.find_first_of(".en") == std::string::npos;
  return whole ? text + ".0" : text;
}

std::string value_text(const FieldValue& value) {
  struct Print {
    std::string operator()(const int64_t* v) const { return std::to_string(*v); }
    std::string operator()(const double* v) const { return number_text(*v); }
    std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
    std::string operator()(const std::string* v) const { return quoted(*v); }
    std::string operator()(const std::vector<double>* v) const {
      std::vector<std::string> parts;
      for (const double each : *v) parts.push_back(number_text(each));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    std::string operator()(const std::vector<std::string>* v) const {
      std::vector<std::string> parts;
      for (const auto& each : *v) parts.push_back(quoted(each));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
  };
  return std::visit(Print{}, value);
}

void check_limits(const Field& field, const std::string& where) {
  double number = 0;
  if (const auto* whole = std::get_if<int64_t*>(&field.value))
    number = static_cast<double>(**whole);
  if (const auto* real = std::get_if<double*>(&field.value)) number = **real;
  if (!(number >= field.least && number <= field.most) && field.least > -1e300) {
    fail({.what = "`" + field.key + "` is out of range",
          .where = where,
          .expected = fmt::format("{} to {} ({})", field.least, field.most, field.help),
          .found = value_text(field.value)});
  }
  const auto* text = std::get_if<std::string*>(&field.value);
  if (!text || field.choices.empty()) return;
  for (const auto& choice : field.choices) {
    if (choice == **text) return;
  }
  fail({.what = fmt::format("`{}` is not a value of `{}`{}", **text, field.key,
                            did_you_mean(**text, field.choices)),
        .where = where,
        .expected = fmt::format("one of {}", fmt::join(field.choices, ", ")),
        .found = **text});
}

// [knock.layers.N] is the one table whose keys are not known beforehand.
bool assign_layer(RunConfig& config, const std::string& key, const toml::node& node,
                  const std::string& where) {
  const std::string prefix = "knock.layers.";
  if (key.rfind(prefix, 0) != 0) return false;
  const std::string rest = key.substr(prefix.size());
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
  return true;
}

// A section without keys says nothing, yet its name may be mistyped.
bool is_empty_section(const std::string& key, const toml::node& node,
                      const std::vector<std::string>& names) {
  return node.is_table() && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return name.rfind(key + ".", 0) == 0;
         });
}

void check_group_decay(const RunConfig& config, const std::string& where) {
  for (const Role role : all_roles) {
    const double decay = config.optimizer.groups[static_cast<size_t>(role)].weight_decay;
    if (decay >= 0 || decay == -1) continue;
    fail({.what = "a weight decay may not be negative",
          .where = where + ", optimizer.groups." + to_string(role) + ".weight_decay",
          .expected = "0 or more, or -1 for the default",
          .found = number_text(decay)});
  }
}

void apply_table(RunConfig& config, const toml::table& table, const std::string& where) {
  const std::vector<Field> fields = run_fields(config);
  std::vector<std::pair<std::string, const toml::node*>> values;
  flatten(table, "", values);
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.key);
  for (const auto& [key, node] : values) {
    const std::string line = at_line(where, node->source());
    if (is_empty_section(key, *node, names)) continue;
    if (!assign_layer(config, key, *node, line)) {
      const auto found = std::find(names.begin(), names.end(), key);
      if (found == names.end()) {
        fail({.what = "unknown key `" + key + "`" + did_you_mean(key, names),
              .where = line,
              .next = "`kha train --print-config` lists every key with its meaning"});
      }
      const Field& field = fields[found - names.begin()];
      std::visit(Assign{field, *node, line}, field.value);
      check_limits(field, line);
    }
    config.given.insert(key);
  }
}

toml::table parse_table(const std::string& text, const std::string& where) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail({.what = "this is not TOML: " + std::string(error.description()),
          .where = at_line(where, error.source())});
  }
}

// "a.b=value": the value is TOML; a word that is not is taken as text.
void apply_set(RunConfig& config, const std::string& set) {
  const auto equals = set.find('=');
  const std::string where = "--set " + set;
  if (equals == std::string::npos || equals == 0) {
    fail({.what = "--set wants key=value",
          .where = where,
          .expected = "for example --set train.steps=200"});
  }
  const std::string key = set.substr(0, equals), value = set.substr(equals + 1);
  toml::table table;
  try {
    table = toml::parse(key + " = " + value);
  } catch (const toml::parse_error&) {
    table = parse_table(key + " = " + quoted(value), where);
  }
  apply_table(config, table, where);
}

}  // namespace

std::filesystem::path RunConfig::run_folder() const {
  return std::filesystem::path(run.folder) / run.name;
}

RunConfig parse_run_config(const std::string& toml_text, const std::string& where,
                           const std::vector<std::string>& sets) {
  RunConfig config;
  apply_table(config, parse_table(toml_text, where), where);
  for (const auto& set : sets) apply_set(config, set);
  for (const auto& arm : config.compare.settings) named_setting(arm, where + ", compare.settings");
  config.model.knocks = resolve_knocks(config.knock, where);
  config.model.max_position_embeddings = config.train.context;
  validate(config.model, where + ", [model] and [knock]");
  check_group_decay(config, where);
  return config;
}

RunConfig read_run_config(const std::filesystem::path& path, const std::vector<std::string>& sets) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    fail({.what = "cannot read the run's configuration",
          .where = path.string(),
          .expected = "a TOML file",
          .found = std::filesystem::exists(path) ? "not a readable file" : "no such file",
          .next = "see configs/ for examples"});
  }
  std::stringstream text;
  text << file.rdbuf();
  return parse_run_config(text.str(), path.string(), sets);
}

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
  return out;
}

ModelKnocks resolve_knocks(const KnockOptions& options, const std::string& where) {
  ModelKnocks knocks;
  knocks.all = named_setting(options.setting, where + ", knock.setting").knocks;
  const std::pair<KnockSlot, const std::string*> slots[] = {
      {KnockSlot::q, &options.q}, {KnockSlot::k, &options.k}, {KnockSlot::v, &options.v}};
  for (const auto& [slot, kind] : slots) {
    if (!kind->empty())
      knocks.all.at(slot) = parse_knock_kind(*kind, where + ", knock." + to_string(slot));
  }
  for (const auto& [layer, own] : options.layers) {
    LayerKnocks maps = knocks.all;
    for (const auto& [slot, kind] : own) {
      maps.at(slot == "q"   ? KnockSlot::q
              : slot == "k" ? KnockSlot::k
                            : KnockSlot::v) =
          parse_knock_kind(kind, where + ", knock.layers." + layer + "." + slot);
    }
    if (maps != knocks.all) knocks.layers[std::stoll(layer)] = maps;
  }
  return knocks;
}

KnockOptions describe_knocks(const ModelKnocks& knocks, const KnockOptions& options) {
  KnockOptions described{.start = options.start, .plan = options.plan};
  const std::string name = setting_name({knocks.all, {}});
  described.setting = name == "custom" ? "baseline" : name;
  if (name == "custom") {
    described.q = to_string(knocks.all.q);
    described.k = to_string(knocks.all.k);
    described.v = to_string(knocks.all.v);
  }
  for (const auto& [layer, own] : knocks.layers) {
    for (const KnockSlot slot : knock_slots) {
      described.layers[std::to_string(layer)][to_string(slot)] = to_string(own.at(slot));
    }
  }
  return described;
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
