// "did you mean": the nearest of a list of names, for unknown keys, settings and options.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kha {

// The candidate with the smallest edit distance to `name`, or nothing when all are farther than
// half of the name's length (at least 2).
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

// " (did you mean `x`?)", or an empty string.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace kha
