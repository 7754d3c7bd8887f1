// What a file is that was taken for a token shard.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kha {

// "a NumPy array (.npy)", "raw ids of 4 bytes without a header", ...; "something else" where the
// first bytes do not tell.
std::string describe_file_kind(std::span<const std::byte> bytes);

}  // namespace kha
