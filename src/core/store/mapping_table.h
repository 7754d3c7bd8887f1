// Which file lies where in memory: to be read in a signal handler.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kha {

void remember_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
void forget_mapping(std::span<const std::byte> bytes);

// The path of the file at this address, null where there is none. Safe in a signal handler.
const char* file_mapped_at(const void* address);

}  // namespace kha
