#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/config/apply_set.h"
#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/legality.h"
#include "kha/core/variant.h"

namespace kha {
namespace {

std::string where_of(const std::string& name) { return "compare.variants." + name; }

// What all arms share may not be a variant's own.
void check_key(const std::string& set, const std::string& name) {
  const std::string key = set.substr(0, set.find('='));
  const bool own = key.starts_with("model.") || key.starts_with("optimizer.") ||
                   key.starts_with("experts.") || key == "compare.settings";
  if (own) return;
  fail({.what = "`" + key + "` may not differ between variants",
        .where = where_of(name),
        .expected = "keys of [model], [optimizer] and [experts], or compare.settings",
        .found = set,
        .cause = "all arms see the same text in the same order, and start from the same seeds",
        .next = "set it for the whole comparison"});
}

RunConfig with_sets(const RunConfig& config, const std::string& name,
                    const std::vector<std::string>& sets) {
  RunConfig own = config;
  for (const auto& set : sets) check_key(set, name);
  apply_sets(own, sets, where_of(name) + ", ");
  own.model.knocks = {};  // each arm takes those of its setting
  validate(own.model, where_of(name));
  return own;
}

std::string reason_against(const AttentionDeclaration& system, const LayerKnocks& knocks) {
  const KnockPlace& place = *illegal_place(system, knocks);
  const auto legal = legal_settings(system, knocks);
  return fmt::format("a `{}` map may not stand on {} of {}: {}; legal there: {}",
                     to_string(knocks.at(place.slot)), to_string(place.slot), system.name,
                     place.reason_otherwise,
                     legal.empty() ? "no map" : fmt::format("{}", fmt::join(legal, ", ")));
}

void take_settings(Variant& variant) {
  const auto& system = attention_declaration(variant.config.model.attention, variant.name);
  for (const auto& setting : variant.config.compare.settings) {
    const LayerKnocks& knocks = named_setting(setting, where_of(variant.name)).knocks;
    if (illegal_place(system, knocks)) {
      variant.left_out.push_back({setting, reason_against(system, knocks)});
    } else {
      variant.settings.push_back(setting);
    }
  }
}

// The reference is one setting for the whole comparison: rows of its table then mean the same.
void check_reference(const Variant& variant, const std::string& reference) {
  const auto& asked = variant.config.compare.settings;
  if (asked.empty() || asked.front() != reference) {
    fail({.what = "a variant has another reference than the comparison",
          .where = where_of(variant.name) + ", compare.settings",
          .expected = "`" + reference + "` first, which the other settings are measured against",
          .found = asked.empty() ? "no setting" : asked.front()});
  }
  if (!variant.settings.empty() && variant.settings.front() == reference) return;
  fail({.what = "the reference `" + reference + "` is not legal in a variant",
        .where = where_of(variant.name),
        .found = variant.left_out.front().reason,
        .next = "put `baseline` first in compare.settings"});
}

Variant make_variant(const RunConfig& config, const std::string& name,
                     const std::vector<std::string>& sets) {
  Variant variant{name, with_sets(config, name, sets), {}, {}};
  take_settings(variant);
  check_reference(variant, config.compare.settings.front());
  return variant;
}

// Place of the system in the declarations, then the larger cache first.
std::tuple<size_t, int64_t, std::string> order_of(const Variant& variant) {
  const auto& systems = attention_declarations();
  const auto& model = variant.config.model;
  const auto own = std::find_if(systems.begin(), systems.end(),
                                [&](const auto& s) { return s.name == model.attention; });
  return {own - systems.begin(), -own->cache_elements(model), variant.name};
}

// Without variants the settings are asked for by name, and one that is not legal is refused.
Variant only_variant(const RunConfig& config) {
  const auto& system = attention_declaration(config.model.attention, "[model]");
  for (const auto& setting : config.compare.settings)
    check_legal(system, named_setting(setting, "[compare]").knocks, "compare.settings, " + setting);
  return {"", config, config.compare.settings, {}};
}

}  // namespace

std::vector<Variant> variants_of(const RunConfig& config) {
  const auto& named = config.compare.variants;
  if (named.empty()) return {only_variant(config)};
  if (config.compare.settings.empty()) {
    fail({.what = "a comparison needs a setting to begin with",
          .where = "compare.settings",
          .expected = "[\"baseline\", \"kha-mlp\"]",
          .found = "none"});
  }
  std::vector<Variant> variants;
  for (const auto& [name, sets] : named) variants.push_back(make_variant(config, name, sets));
  std::sort(variants.begin(), variants.end(),
            [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
  return variants;
}

}  // namespace kha
