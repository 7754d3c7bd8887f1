// The JSON header of a safetensors file: one pass over its tokens, nothing repeated or unknown.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kha/core/safetensors.h"

namespace kha {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of the header; offsets as written, unchecked
  std::map<std::string, std::string> metadata;
};

// Errors: no JSON, an entry that is not what the format knows; each with its place. A tensor's name
// that is repeated may get through.
SafetensorsHeader parse_safetensors_header(std::string_view text,
                                           const std::filesystem::path& path);

// The thorough reader alone, which lets no repeated name through; the one above spares it headers
// that are right and plain.
SafetensorsHeader read_safetensors_header(std::string_view text, const std::filesystem::path& path);

}  // namespace kha
