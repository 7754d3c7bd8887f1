#include "kha/core/legality.h"

#include <algorithm>

#include "core/description/legality/size_symbols.h"

namespace kha {
namespace {

bool is_legal(const KnockPlace& place, KnockKind kind) {
  return std::find(place.legal.begin(), place.legal.end(), kind) != place.legal.end();
}

// With and without the part that a model may leave out.
std::vector<std::string> projections(const KnockPlace& place) {
  ModelConfig config = model_of_symbols();
  std::vector<std::string> names{place.projection(config)};
  config.query_latent = 0;
  const std::string without = place.projection(config);
  if (without != names[0]) names.push_back(without);
  return names;
}

LegalPlace describe(const KnockPlace& place) {
  LegalPlace legal{
      place.slot, {}, {}, place.values && is_legal(place, KnockKind::mlp), place.reason_otherwise};
  for (const KnockKind kind : place.legal) {
    if (kind != KnockKind::none) legal.kinds.push_back(kind);
  }
  if (is_legal(place, KnockKind::linear)) legal.linear_into = projections(place);
  return legal;
}

LegalSystem describe(const AttentionDeclaration& system) {
  LegalSystem legal{system.name, system.meaning, {}, {}, legal_settings(system, {})};
  for (const KnockPlace& place : system.places) legal.places.push_back(describe(place));
  for (const CacheTensor& tensor : system.cache(model_of_symbols())) {
    legal.cached.push_back({tensor.name, product_of(tensor.heads, tensor.width)});
  }
  return legal;
}

// A map that goes or comes is further away than one that changes its kind.
int64_t distance(const LayerKnocks& a, const LayerKnocks& b) {
  int64_t sum = 0;
  for (const KnockSlot slot : knock_slots) {
    const bool one = a.at(slot) != KnockKind::none, other = b.at(slot) != KnockKind::none;
    sum += one != other ? 2 : a.at(slot) != b.at(slot) ? 1 : 0;
  }
  return sum;
}

}  // namespace

std::vector<LegalSystem> legality() {
  std::vector<LegalSystem> systems;
  for (const auto& system : attention_declarations()) systems.push_back(describe(system));
  return systems;
}

const KnockPlace* illegal_place(const AttentionDeclaration& system, const LayerKnocks& knocks) {
  const auto place = std::find_if(system.places.begin(), system.places.end(),
                                  [&](const auto& p) { return !is_legal(p, knocks.at(p.slot)); });
  return place == system.places.end() ? nullptr : &*place;
}

LayerKnocks nearest_legal(const AttentionDeclaration& system, const LayerKnocks& knocks) {
  LayerKnocks nearest = knocks;
  for (const KnockPlace& place : system.places) {
    if (is_legal(place, knocks.at(place.slot))) continue;
    nearest.at(place.slot) =
        is_legal(place, KnockKind::linear) ? KnockKind::linear : KnockKind::none;
  }
  return nearest;
}

std::vector<std::string> legal_settings(const AttentionDeclaration& system,
                                        const LayerKnocks& knocks) {
  std::vector<const NamedSetting*> legal;
  for (const NamedSetting& setting : named_settings()) {
    if (setting.knocks.any() && !illegal_place(system, setting.knocks)) legal.push_back(&setting);
  }
  std::stable_sort(legal.begin(), legal.end(), [&](const auto* a, const auto* b) {
    return distance(a->knocks, knocks) < distance(b->knocks, knocks);
  });
  std::vector<std::string> names;
  for (const NamedSetting* setting : legal) names.push_back(setting->name);
  return names;
}

}  // namespace kha
