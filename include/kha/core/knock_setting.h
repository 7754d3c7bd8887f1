// Which knocking map stands on which projection: kinds, slots and the named settings.
//
// Source: "Knocking-Heads Attention" (arXiv 2510.23052), eq. 5-9 and table 2. One map a layer and
// slot, shared by all heads; each starts as the identity unless `KnockStart::random`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kha {

// linear: y = x T.  mlp: y = 2 (x U * sigmoid(x G)) W.  gate: y = 2 x * sigmoid(x G).
enum class KnockKind { none, linear, mlp, gate };
enum class KnockSlot { q, k, v };
enum class KnockStart { identity, random };

inline constexpr std::array<KnockSlot, 3> knock_slots{KnockSlot::q, KnockSlot::k, KnockSlot::v};

std::string to_string(KnockKind kind);
std::string to_string(KnockSlot slot);
std::string to_string(KnockStart start);

// Fail, naming `where`, for another word than the enumerators.
KnockKind parse_knock_kind(const std::string& text, const std::string& where);
KnockStart parse_knock_start(const std::string& text, const std::string& where);

// The three maps of one layer.
struct LayerKnocks {
  KnockKind q = KnockKind::none;
  KnockKind k = KnockKind::none;
  KnockKind v = KnockKind::none;

  KnockKind at(KnockSlot slot) const;
  KnockKind& at(KnockSlot slot);
  bool any() const;
  bool operator==(const LayerKnocks&) const = default;
};

// The maps of a whole model: one setting, and the layers that differ from it.
struct ModelKnocks {
  LayerKnocks all;
  std::map<int64_t, LayerKnocks> layers;

  const LayerKnocks& at(int64_t layer) const;
  bool any(int64_t layer_count) const;
  bool operator==(const ModelKnocks&) const = default;
};

struct NamedSetting {
  std::string name;
  LayerKnocks knocks;
  std::string meaning;
};

// baseline, kha-linear, kha-linear-v, kha-mlp, kha-mlp-qkv, kha-gate-v.
const std::vector<NamedSetting>& named_settings();

// Fails with the nearest name for a setting that does not exist.
const NamedSetting& named_setting(const std::string& name, const std::string& where);

// The name of a setting with these knocks in every layer, or "custom".
std::string setting_name(const ModelKnocks& knocks);

}  // namespace kha
