// Random numbers and orders that are pure functions of a key. The distributions and shuffles of the
// standard library are not used: they give other results with another library.
#pragma once

#include <cstdint>

namespace kha {

// A bijection of 64-bit words that spreads every input bit over the whole word.
std::uint64_t mix(std::uint64_t word);

// One key from two numbers; the order of the two matters.
std::uint64_t mix(std::uint64_t first, std::uint64_t second);

// A number in [0, bound), bound at least 1, from a well mixed word.
std::uint64_t below(std::uint64_t bound, std::uint64_t word);

// Where `index` of [0, count) stands in the order of that key: a permutation of [0, count),
// computed for one index alone.
std::uint64_t keyed_permutation(std::uint64_t index, std::uint64_t count, std::uint64_t key);

}  // namespace kha
