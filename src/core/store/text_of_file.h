// A small file as a text.
#pragma once

#include <filesystem>
#include <string>

namespace kha {

// Errors: those of MappedFile::open.
std::string text_of_file(const std::filesystem::path& file);

}  // namespace kha
