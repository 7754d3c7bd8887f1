#include "kha/core/run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/config/apply_set.h"
#include "core/config/bare_letters.h"
#include "core/config/field_text.h"
#include "core/config/named_settings.h"
#include "core/config/open_tables.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"
#include "kha/core/variant.h"

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

// A section without keys says nothing, yet its name may be mistyped.
bool is_empty_section(const std::string& key, const toml::node& node,
                      const std::vector<std::string>& names) {
  const auto holds = [&](const std::string& name) { return name.rfind(key + ".", 0) == 0; };
  const auto& open = open_tables();
  return node.is_table() && (std::any_of(names.begin(), names.end(), holds) ||
                             std::find(open.begin(), open.end(), key) != open.end());
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

using Values = std::vector<std::pair<std::string, const toml::node*>>;

// Below everything that stands beside them.
void apply_names(RunConfig& config, const Values& values, const std::string& where) {
  for (const auto& [key, node] : values) {
    const auto name = node->value_exact<std::string>();
    if (!name || !is_name_of_settings(key)) continue;
    apply_named_settings(config, key, *name, at_line(where, node->source()) + ", " + key);
  }
}

void apply_table(RunConfig& config, const toml::table& table, const std::string& where) {
  const std::vector<Field> fields = run_fields(config);
  Values values;
  flatten(table, "", values);
  apply_names(config, values, where);
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.key);
  for (const auto& [key, node] : values) {
    const std::string line = at_line(where, node->source());
    if (is_empty_section(key, *node, names)) continue;
    if (!assign_in_open_table(config, key, *node, line)) {
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
  if (const auto at = bare_letter_beyond_ascii(text)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(*at), '\n');
    fail({.what = "this is not TOML: a letter beyond ASCII stands outside quotes",
          .where = fmt::format("{}, line {}", where, line),
          .next = "put the key or the text in quotes"});
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail({.what = "this is not TOML: " + std::string(error.description()),
          .where = at_line(where, error.source())});
  } catch (const std::logic_error&) {  // an assertion of the parser (third_party/tomlplusplus.cpp)
    fail({.what = "this is not TOML: a key or the name of a table is not one",
          .where = where,
          .expected = "letters, digits, _ and -, anything else in quotes"});
  }
}

toml::table table_of_set(const std::string& set, const std::string& where) {
  const auto equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail({.what = where.starts_with("--set") ? "--set wants key=value" : "this is no key=value",
          .where = where,
          .expected = "for example --set train.steps=200"});
  }
  const std::string key = set.substr(0, equals), value = set.substr(equals + 1);
  // A text without quotes, or nothing of TOML, which is said.
  if (bare_letter_beyond_ascii(value)) return parse_table(key + " = " + quoted(value), where);
  try {
    return toml::parse(key + " = " + value);
  } catch (const std::exception&) {
    return parse_table(key + " = " + quoted(value), where);
  }
}

bool names_settings(const toml::table& table) {
  Values values;
  flatten(table, "", values);
  return std::any_of(values.begin(), values.end(),
                     [](const auto& value) { return is_name_of_settings(value.first); });
}

}  // namespace

void apply_set(RunConfig& config, const std::string& set, const std::string& where) {
  apply_table(config, table_of_set(set, where), where);
}

void apply_sets(RunConfig& config, const std::vector<std::string>& sets, const std::string& place) {
  for (const bool names : {true, false}) {
    for (const auto& set : sets) {
      const toml::table table = table_of_set(set, place + set);
      if (names_settings(table) == names) apply_table(config, table, place + set);
    }
  }
}

std::filesystem::path RunConfig::run_folder() const {
  return std::filesystem::path(run.folder) / run.name;
}

RunConfig parse_run_config(const std::string& toml_text, const std::string& where,
                           const std::vector<std::string>& sets) {
  RunConfig config;
  apply_table(config, parse_table(toml_text, where), where);
  const std::set<std::string> of_file = std::exchange(config.given, {});
  apply_sets(config, sets, "--set ");
  // A budget of --set scales what a file says, a run's own resolved configuration too.
  const bool scaled_on_top =
      config.given.contains("train.tokens") || config.given.contains("train.scale_from");
  const std::set<std::string> kept = config.given;
  config.given.insert(of_file.begin(), of_file.end());
  for (const auto& arm : config.compare.settings) named_setting(arm, where + ", compare.settings");
  config.model.knocks = resolve_knocks(config.knock, where);
  config.model.max_position_embeddings = config.train.context;
  validate(config.model, where + ", [model] and [knock]");
  apply_budget(config, scaled_on_top ? kept : config.given, where);
  check_group_decay(config, where);
  if (!config.compare.variants.empty()) variants_of(config);  // what does not fit is said early
  return config;
}

RunConfig read_run_config(const std::filesystem::path& path, const std::vector<std::string>& sets) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    fail({.what = "cannot read the run's configuration",
          .where = path.string(),
          .expected = "a TOML file",
          .found = std::filesystem::exists(path) ? "not a readable file" : "no such file",
          .next = "see configs/ for examples, kha plan --list for models by name"});
  }
  std::stringstream text;
  text << file.rdbuf();
  return parse_run_config(text.str(), path.string(), sets);
}

}  // namespace kha
