// What a file really is when it is not the safetensors file it was taken for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace kha {

struct ForeignFormat {
  std::string name;  // "a git-lfs pointer (the real file has 123 bytes)"
  std::string next;  // how to come to the safetensors file
};

// Judges by the first bytes (up to a few hundred are enough). Nothing for a safetensors file, and
// nothing for bytes of no known kind.
std::optional<ForeignFormat> recognise_foreign_format(std::span<const std::byte> bytes);

}  // namespace kha
