#include "kha/core/attention_system.h"

#include <algorithm>

#include "core/description/attention/declarations.h"
#include "kha/core/error.h"
#include "kha/core/model_config.h"
#include "kha/core/nearest_name.h"

namespace kha {

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
  for (const KnockPlace& place : system.places) {
    const KnockKind kind = knocks.at(place.slot);
    if (std::find(place.legal.begin(), place.legal.end(), kind) != place.legal.end()) continue;
    std::string legal;
    for (const KnockKind each : place.legal) legal += (legal.empty() ? "" : ", ") + to_string(each);
    fail({.what = "a `" + to_string(kind) + "` map may not stand on " + to_string(place.slot) +
                  " of " + system.name,
          .where = where,
          .expected = legal,
          .found = to_string(kind),
          .cause = place.reason_otherwise});
  }
}

}  // namespace kha
