// Where a map may stand in each attention system, read from the declarations: as a table for people
// and programs, and as the nearest legal choice for a message.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kha/core/attention_system.h"

namespace kha {

// One slot of a system.
struct LegalPlace {
  KnockSlot slot;
  std::vector<KnockKind> kinds;  // that may stand, `none` apart; empty: no map at all
  // The projection that `linear` folds into; two where it depends on the sizes.
  std::vector<std::string> linear_into;
  bool mlp_folds;      // up into that projection, down into o_proj; a gate stays
  std::string reason;  // against the other kinds; empty where every kind is legal
};

// What the cache holds of one token in one layer, in the symbols of legality_symbols.
struct CachedPart {
  std::string name;      // "keys"
  std::string elements;  // "H_kv D"
};

struct LegalSystem {
  std::string name;
  std::string meaning;
  std::vector<LegalPlace> places;
  std::vector<CachedPart> cached;
  std::vector<std::string> settings;  // named settings whose maps are legal, the baseline apart
};

// Every system, in the order of the declarations.
std::vector<LegalSystem> legality();

// The table with the reasons under it: for a terminal, for docs/attention.md, for programs.
std::string legality_text();
std::string legality_markdown();
std::string legality_json();

// The first place whose map may not stand, and nothing where all may.
const KnockPlace* illegal_place(const AttentionDeclaration& system, const LayerKnocks& knocks);

// The same maps with each illegal one replaced: by `linear` where that is legal, else by none.
LayerKnocks nearest_legal(const AttentionDeclaration& system, const LayerKnocks& knocks);

// Names of the settings that are legal, the baseline apart; the nearest to `knocks` first.
std::vector<std::string> legal_settings(const AttentionDeclaration& system,
                                        const LayerKnocks& knocks);

}  // namespace kha
