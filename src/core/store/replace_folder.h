// Putting a finished checkpoint under its final name.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kha {

// Moves `finished` to the final name of `step` in `root`. A checkpoint that stands there already
// is exchanged in one call where the file system can do that and `may_exchange` says so; elsewhere
// the new one stands under its replacing name while the old one is moved away, and readers know
// both names. The replaced one is removed.
void put_in_place(const std::filesystem::path& root, const std::filesystem::path& finished,
                  std::int64_t step, bool may_exchange = true);

// Ends a replacement that a kill interrupted: the replacing name becomes the final one.
void settle_replacement(const std::filesystem::path& root, std::int64_t step);

// Renames the folder to a hidden name and removes it, so that no half of it keeps its name.
void remove_whole(const std::filesystem::path& root, const std::filesystem::path& folder,
                  std::int64_t step);

}  // namespace kha
