// The instruction sets that the CPU kernels are compiled for, one body each.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace kha {

enum class InstructionSet {
  scalar,  // one value at a time, for every architecture
  avx2,    // AVX2 and FMA, 8 float32 lanes
  avx512,  // AVX-512 F, BW, DQ and VL, 16 float32 lanes
};

constexpr std::array all_instruction_sets{InstructionSet::scalar, InstructionSet::avx2,
                                          InstructionSet::avx512};

// "scalar", "avx2", "avx512": the values of KHA_CPU and the names in run records.
constexpr std::string_view to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
    default:
      return "scalar";
  }
}

// The set of that name, or nothing for any other text.
constexpr std::optional<InstructionSet> parse_instruction_set(std::string_view name) {
  for (InstructionSet set : all_instruction_sets) {
    if (to_string(set) == name) return set;
  }
  return std::nullopt;
}

// Whether this build has the set and this processor runs it.
bool is_usable(InstructionSet set);

// The widest usable set.
InstructionSet widest_instruction_set();

}  // namespace kha
