#include "kha/core/knock_setting.h"

#include <algorithm>

#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

const std::vector<std::string> kind_names{"none", "linear", "mlp", "gate"};
const std::vector<std::string> start_names{"identity", "random"};

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The index of `text` in `names`, or an Error that names the nearest.
size_t index_of(const std::string& text, const std::vector<std::string>& names,
                const std::string& what, const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    fail({.what = "unknown " + what + " `" + text + "`" + did_you_mean(text, names),
          .where = where,
          .expected = "one of " + join(names),
          .found = text});
  }
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

std::string to_string(KnockKind kind) { return kind_names[static_cast<size_t>(kind)]; }
std::string to_string(KnockStart start) { return start_names[static_cast<size_t>(start)]; }
std::string to_string(KnockSlot slot) {
  return slot == KnockSlot::q ? "q" : slot == KnockSlot::k ? "k" : "v";
}

KnockKind parse_knock_kind(const std::string& text, const std::string& where) {
  return static_cast<KnockKind>(index_of(text, kind_names, "kind of map", where));
}

KnockStart parse_knock_start(const std::string& text, const std::string& where) {
  return static_cast<KnockStart>(index_of(text, start_names, "start of the maps", where));
}

KnockKind LayerKnocks::at(KnockSlot slot) const {
  return slot == KnockSlot::q ? q : slot == KnockSlot::k ? k : v;
}

KnockKind& LayerKnocks::at(KnockSlot slot) {
  return slot == KnockSlot::q ? q : slot == KnockSlot::k ? k : v;
}

bool LayerKnocks::any() const { return *this != LayerKnocks{}; }

const LayerKnocks& ModelKnocks::at(int64_t layer) const {
  const auto own = layers.find(layer);
  return own == layers.end() ? all : own->second;
}

bool ModelKnocks::any(int64_t layer_count) const {
  int64_t own = 0;
  for (const auto& [layer, knocks] : layers) {
    if (layer < 0 || layer >= layer_count) continue;
    if (knocks.any()) return true;
    ++own;
  }
  return all.any() && own < layer_count;
}

const std::vector<NamedSetting>& named_settings() {
  using enum KnockKind;
  static const std::vector<NamedSetting> settings{
      {"baseline", {none, none, none}, "no maps: the plain model"},
      {"kha-linear", {linear, linear, linear}, "a linear map on Q, K and V; folds away entirely"},
      {"kha-linear-v", {none, none, linear}, "a linear map on V; folds away entirely"},
      {"kha-mlp", {none, none, mlp}, "the MLP map on V; folds into a gate"},
      {"kha-mlp-qkv", {mlp, mlp, mlp}, "the MLP map on Q, K and V (ablation)"},
      {"kha-gate-v", {none, none, gate}, "a gate on V (the paper's harmful ablation)"}};
  return settings;
}

const NamedSetting& named_setting(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& setting : named_settings()) names.push_back(setting.name);
  return named_settings()[index_of(name, names, "setting", where)];
}

std::string setting_name(const ModelKnocks& knocks) {
  if (!knocks.layers.empty()) return "custom";
  for (const auto& setting : named_settings()) {
    if (setting.knocks == knocks.all) return setting.name;
  }
  return "custom";
}

}  // namespace kha
