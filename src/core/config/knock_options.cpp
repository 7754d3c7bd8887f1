// The [knock] table as maps of layers, and back.
#include "kha/core/run_config.h"

namespace kha {

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

}  // namespace kha
