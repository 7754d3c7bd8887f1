#include "kha/core/attention_system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/description/attention/declarations.h"
#include "kha/core/error.h"
#include "kha/core/legality.h"
#include "kha/core/model_config.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

// What to write instead: the nearest named setting, the slots that would have to change.
std::string legal_choices(const AttentionDeclaration& system, const LayerKnocks& knocks) {
  const LayerKnocks nearest = nearest_legal(system, knocks);
  std::vector<std::string> changes;
  for (const KnockSlot slot : knock_slots) {
    if (nearest.at(slot) == knocks.at(slot)) continue;
    changes.push_back(
        fmt::format("--set knock.{}={}", to_string(slot), to_string(nearest.at(slot))));
  }
  const auto settings = legal_settings(system, knocks);
  std::string text = fmt::format("{}", fmt::join(changes, " "));
  if (!settings.empty())
    text = fmt::format("--set knock.setting={}, or {}", settings.front(), text);
  if (settings.size() > 1)
    text += fmt::format("; also legal: {}", fmt::join(settings.begin() + 1, settings.end(), ", "));
  return text + " (kha inspect --legality)";
}

}  // namespace

const KnockPlace& AttentionDeclaration::place(KnockSlot slot) const {
  return *std::find_if(places.begin(), places.end(),
                       [&](const KnockPlace& place) { return place.slot == slot; });
}

int64_t AttentionDeclaration::cache_elements(const ModelConfig& config) const {
  int64_t elements = 0;
  for (const CacheTensor& tensor : cache(config)) elements += tensor.heads * tensor.width;
  return elements;
}

double AttentionDeclaration::decode_context_flops(const ModelConfig& config) const {
  return absorbed_context_flops ? absorbed_context_flops(config) : context_flops(config);
}

const std::vector<AttentionDeclaration>& attention_declarations() {
  static const std::vector<AttentionDeclaration> systems{
      declare_gqa(), declare_gta(), declare_gta_value(), declare_gta_apart(),
      declare_mla(), declare_gla(), declare_talking(),   declare_collaborative()};
  return systems;
}

const AttentionDeclaration& attention_declaration(const std::string& name,
                                                  const std::string& where) {
  std::vector<std::string> names;
  for (const auto& system : attention_declarations()) {
    if (system.name == name) return system;
    names.push_back(system.name);
  }
  std::string known;
  for (const auto& each : names) known += (known.empty() ? "" : ", ") + each;
  fail({.what = "unknown attention `" + name + "`" + did_you_mean(name, names),
        .where = where,
        .expected = "one of " + known,
        .found = name});
}

void check_legal(const AttentionDeclaration& system, const LayerKnocks& knocks,
                 const std::string& where) {
  const KnockPlace* place = illegal_place(system, knocks);
  if (!place) return;
  const std::string kind = to_string(knocks.at(place->slot));
  std::vector<std::string> legal;
  for (const KnockKind each : place->legal) legal.push_back(to_string(each));
  fail({.what = "a `" + kind + "` map may not stand on " + to_string(place->slot) + " of " +
                system.name,
        .where = where,
        .expected = fmt::format("{}", fmt::join(legal, ", ")),
        .found = kind,
        .cause = place->reason_otherwise,
        .next = legal_choices(system, knocks)});
}

}  // namespace kha
