// The table of legality as text, Markdown and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/description/legality/size_symbols.h"
#include "kha/core/legality.h"

namespace kha {
namespace {

std::vector<std::string> names_of(const std::vector<KnockKind>& kinds) {
  std::vector<std::string> names;
  for (const KnockKind kind : kinds) names.push_back(to_string(kind));
  return names;
}

std::string kinds_text(const LegalPlace& place, const char* without) {
  const auto names = names_of(place.kinds);
  return names.empty() ? without : fmt::format("{}", fmt::join(names, ", "));
}

// "keys H_kv D + values H_kv D"
std::string cached_text(const LegalSystem& system) {
  std::string text;
  for (const CachedPart& part : system.cached) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", part.name, part.elements);
  }
  return text;
}

// The kinds that a reason speaks of.
std::string refused_text(const LegalPlace& place) {
  std::vector<std::string> refused;
  for (const KnockKind kind : {KnockKind::linear, KnockKind::mlp, KnockKind::gate}) {
    if (std::find(place.kinds.begin(), place.kinds.end(), kind) == place.kinds.end())
      refused.push_back(to_string(kind));
  }
  return fmt::format("{}", fmt::join(refused, ", "));
}

std::string folds_text(const LegalPlace& place, const char* quote) {
  if (place.linear_into.empty()) return "";
  const std::string between = fmt::format("{0} or {0}", quote);
  std::string text = fmt::format("{0}{1}{0}", quote, fmt::join(place.linear_into, between));
  if (place.mlp_folds)
    text += fmt::format("; mlp: up there, down into {0}o_proj{0}, a gate stays", quote);
  return text;
}

// Systems that refuse the same kinds on the same slot for the same reason are one line.
std::vector<std::string> reasons(const std::vector<LegalSystem>& systems) {
  struct Reason {
    std::string text;
    std::vector<std::string> where;
  };
  std::vector<Reason> list;
  for (const LegalSystem& system : systems) {
    for (const LegalPlace& place : system.places) {
      if (place.reason.empty() || refused_text(place).empty()) continue;
      const std::string where =
          fmt::format("{} on {} of {}", refused_text(place), to_string(place.slot), system.name);
      auto same = std::find_if(list.begin(), list.end(),
                               [&](const Reason& reason) { return reason.text == place.reason; });
      if (same == list.end()) same = list.insert(list.end(), {place.reason, {}});
      same->where.push_back(where);
    }
  }
  std::vector<std::string> lines;
  for (const Reason& reason : list)
    lines.push_back(fmt::format("{}: {}", fmt::join(reason.where, "; "), reason.text));
  return lines;
}

nlohmann::ordered_json place_json(const LegalPlace& place) {
  return {{"slot", to_string(place.slot)},
          {"legal", names_of(place.kinds)},
          {"linear_folds_into", place.linear_into},
          {"mlp_folds", place.mlp_folds},
          {"reason", place.reason}};
}

nlohmann::ordered_json system_json(const LegalSystem& system) {
  nlohmann::ordered_json json{{"attention", system.name},
                              {"meaning", system.meaning},
                              {"places", nlohmann::ordered_json::array()},
                              {"cache", nlohmann::ordered_json::array()},
                              {"settings", system.settings}};
  for (const LegalPlace& place : system.places) json["places"].push_back(place_json(place));
  for (const CachedPart& part : system.cached)
    json["cache"].push_back({{"name", part.name}, {"elements", part.elements}});
  return json;
}

}  // namespace

std::string legality_text() {
  const auto systems = legality();
  std::string text = fmt::format("{:<15}{:<6}{:<20}{}\n", "attention", "slot", "legal maps",
                                 "what linear folds into");
  for (const LegalSystem& system : systems) {
    for (const LegalPlace& place : system.places) {
      text +=
          fmt::format("{:<15}{:<6}{:<20}{}\n", &place == &system.places.front() ? system.name : "",
                      to_string(place.slot), kinds_text(place, "none"), folds_text(place, ""));
    }
    text += fmt::format("{:<15}cached for each token and layer: {}\n", "", cached_text(system));
    text += fmt::format("{:<15}settings: baseline{}{}\n", "", system.settings.empty() ? "" : ", ",
                        fmt::join(system.settings, ", "));
  }
  text += fmt::format("\n{}\n\nwhy not the others:\n", meaning_of_symbols());
  for (const auto& line : reasons(systems)) text += "  " + line + "\n";
  return text;
}

std::string legality_markdown() {
  const auto systems = legality();
  std::string text =
      "| attention | q | k | v | linear folds into | cached for each token and layer | settings |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const LegalSystem& system : systems) {
    std::string kinds, folds;
    for (const LegalPlace& place : system.places) {
      kinds += kinds_text(place, "none") + " | ";
      if (place.linear_into.empty()) continue;
      folds += fmt::format("{}{}: {}", folds.empty() ? "" : "<br>", to_string(place.slot),
                           folds_text(place, "`"));
    }
    text += fmt::format("| `{}` | {}{} | {} | {} |\n", system.name, kinds, folds,
                        cached_text(system), fmt::join(system.settings, ", "));
  }
  text += fmt::format("\n{}. The baseline is legal everywhere.\n\n", meaning_of_symbols());
  for (const auto& line : reasons(systems)) text += "- " + line + ".\n";
  return text;
}

std::string legality_json() {
  nlohmann::ordered_json json{{"symbols", meaning_of_symbols()},
                              {"systems", nlohmann::ordered_json::array()}};
  for (const LegalSystem& system : legality()) json["systems"].push_back(system_json(system));
  return json.dump(2) + "\n";
}

}  // namespace kha
