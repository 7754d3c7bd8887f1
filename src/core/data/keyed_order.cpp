#include "core/data/keyed_order.h"

#include <bit>
#include <cassert>

namespace kha {
namespace {

// Odd, with irregular bits: 2^64 divided by the golden ratio.
constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;

// Four rounds make a balanced Feistel network strong for good round functions; the halves here can
// be one bit wide, where more rounds are needed to reach every order evenly.
constexpr int rounds = 8;

// One pass of the network over [0, 4^half_bits), a bijection whatever the round function is.
std::uint64_t feistel(std::uint64_t value, int half_bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t next = left ^ (mix(key + golden * round, right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

// The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// 2014), variant 13 of Stafford's mixers.
std::uint64_t mix(std::uint64_t word) {
  word += golden;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  return word ^ (word >> 31);
}

std::uint64_t mix(std::uint64_t first, std::uint64_t second) { return mix(mix(first) ^ second); }

// The high word of the product; its bias, bound / 2^64, is far below anything that can be seen.
std::uint64_t below(std::uint64_t bound, std::uint64_t word) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

std::uint64_t keyed_permutation(std::uint64_t index, std::uint64_t count, std::uint64_t key) {
  assert(index < count);
  if (count == 1) return 0;
  const int half_bits = (std::bit_width(count - 1) + 1) / 2;
  assert(half_bits <= 31);
  // Walking the cycle until it is back below `count` keeps a bijection; the network's domain is
  // under four times `count`, so the walk is short.
  do {
    index = feistel(index, half_bits, key);
  } while (index >= count);
  return index;
}

}  // namespace kha
