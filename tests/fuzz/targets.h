// What reads files of others, each as a function of the file's bytes: for libFuzzer, and for the
// replay of its corpus in the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kha::fuzz {

struct Target {
  std::string name;  // and of its folder in tests/fuzz/corpus
  // Reads the bytes as a file of this kind. True where it was read, false where it was refused with
  // a kha::Error; whatever else happens is a fault of the reader.
  bool (*read)(std::span<const std::uint8_t> bytes);
};

const std::vector<Target>& targets();

// Null for another name.
const Target* find_target(const std::string& name);

}  // namespace kha::fuzz
