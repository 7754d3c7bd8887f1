// What the arena counts and promises; never how long anything takes.
#include "memory/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace kha {
namespace {

constexpr std::size_t MB = 1 << 20;
constexpr std::size_t plenty = 4096 * MB;

std::int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

// What a training step does to an allocator: many tensors of several sizes, each written, freed in
// another order than they were taken.
void step(Arena& arena) {
  std::vector<void*> blocks;
  for (int round = 0; round < 8; ++round) {
    for (std::size_t bytes : {MB / 8, MB, 3 * MB, 8 * MB + 4096}) {
      blocks.push_back(arena.take(bytes));
      std::memset(blocks.back(), 1, bytes);
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) arena.give(blocks[i * 5 % blocks.size()]);
}

TEST(Arena, BlocksAreAlignedWritableAndApart) {
  Arena arena(plenty, plenty);
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (std::size_t bytes : {std::size_t{1}, std::size_t{63}, MB, MB + 1, 100 * MB, 2 * MB}) {
    char* const block = static_cast<char*>(arena.take(bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
    EXPECT_TRUE(arena.owns(block) && arena.owns(block + bytes - 1));
    block[0] = block[bytes - 1] = 7;
    for (const auto& [other, size] : blocks)
      EXPECT_TRUE(block + bytes <= other || other + size <= block);
    blocks.emplace_back(block, bytes);
  }
  EXPECT_FALSE(arena.owns(&arena));
}

TEST(Arena, AStepAfterTheFirstTakesNothingFromTheSystem) {
  Arena arena(plenty, plenty);
  step(arena);
  const ArenaCounts first = arena.counts();
  const std::int64_t faults = minor_faults();
  for (int i = 0; i < 5; ++i) step(arena);
  const ArenaCounts later = arena.counts();
  EXPECT_EQ(later.system_requests, first.system_requests);
  EXPECT_EQ(later.bytes_held, first.bytes_held);
  EXPECT_EQ(later.peak_in_use, first.peak_in_use);
  EXPECT_EQ(later.requests, 6 * first.requests);
  EXPECT_EQ(later.hits, later.requests - (first.requests - first.hits));
  EXPECT_LT(minor_faults() - faults, 50);
}

TEST(Arena, CountsWhatIsInUseAndItsPeak) {
  Arena arena(plenty, plenty);
  void* const a = arena.take(10 * MB);
  void* const b = arena.take(30 * MB);
  const std::int64_t both = arena.counts().bytes_in_use;
  EXPECT_GE(both, static_cast<std::int64_t>(40 * MB));
  EXPECT_LT(both, static_cast<std::int64_t>(40 * MB + MB / 8));
  arena.give(a);
  EXPECT_LT(arena.counts().bytes_in_use, static_cast<std::int64_t>(30 * MB + MB / 8));
  EXPECT_EQ(arena.counts().peak_in_use, both);
  arena.reset_peak();
  EXPECT_LT(arena.counts().peak_in_use, both);
  arena.give(b);
  EXPECT_EQ(arena.counts().bytes_in_use, 0);
}

// Three blocks in a row, the middle one freed last: one free stretch that holds their sum.
TEST(Arena, FreedNeighboursGrowTogether) {
  Arena arena(plenty, plenty);
  void* const a = arena.take(20 * MB);
  void* const b = arena.take(20 * MB);
  void* const c = arena.take(20 * MB);
  void* const end = arena.take(MB);
  for (void* block : {a, c, b}) arena.give(block);
  const std::int64_t before = arena.counts().system_requests;
  EXPECT_EQ(arena.take(60 * MB), a);
  EXPECT_EQ(arena.counts().system_requests, before);
  arena.give(end);
}

TEST(Arena, TheSmallestBlockThatFitsIsTaken) {
  Arena arena(plenty, plenty);
  void* const wide = arena.take(20 * MB);
  arena.take(MB);
  void* const narrow = arena.take(8 * MB);
  arena.take(MB);
  arena.give(wide);
  arena.give(narrow);
  EXPECT_EQ(arena.take(7 * MB), narrow);
  EXPECT_EQ(arena.take(9 * MB), wide);
}

TEST(Arena, WhatIsHeldStaysNearWhatWasInUse) {
  Arena arena(plenty, plenty);
  std::mt19937 random(7);
  std::vector<void*> blocks;
  for (int i = 0; i < 4000; ++i) {
    const bool takes = blocks.empty() || random() % 2 == 0;
    if (takes && blocks.size() < 100) {
      blocks.push_back(arena.take((random() % 32 + 1) * 100000));
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      arena.give(blocks.back());
      blocks.pop_back();
    }
  }
  const ArenaCounts counts = arena.counts();
  EXPECT_LT(static_cast<double>(counts.bytes_held), 1.25 * static_cast<double>(counts.peak_in_use));
  for (void* block : blocks) arena.give(block);
}

TEST(Arena, ReleaseGivesThePagesBack) {
  Arena arena(plenty, plenty);
  void* const first = arena.take(64 * MB);
  void* const kept = arena.take(8 * MB);
  void* const last = arena.take(64 * MB);
  for (const auto& [block, bytes] : {std::pair{first, 64 * MB}, {kept, 8 * MB}, {last, 64 * MB}})
    std::memset(block, 5, bytes);
  const std::int64_t full = resident_bytes();
  arena.give(first);
  arena.give(last);
  EXPECT_GE(arena.counts().bytes_held, static_cast<std::int64_t>(136 * MB));
  arena.release();
  EXPECT_LT(resident_bytes(), full - static_cast<std::int64_t>(120 * MB));
  EXPECT_LT(arena.counts().bytes_held, static_cast<std::int64_t>(9 * MB));
  for (std::size_t i = 0; i < 8 * MB; i += 4096) ASSERT_EQ(static_cast<char*>(kept)[i], 5);
  char* const again = static_cast<char*>(arena.take(64 * MB));
  std::memset(again, 6, 64 * MB);  // the pages come back
  EXPECT_EQ(again[MB], 6);
}

TEST(Arena, FreeMemoryAboveTheLimitIsGivenBack) {
  Arena arena(plenty, /*keep=*/32 * MB);
  void* const a = arena.take(20 * MB);
  void* const b = arena.take(20 * MB);
  arena.give(a);
  EXPECT_GE(arena.counts().bytes_held, static_cast<std::int64_t>(40 * MB));
  arena.give(b);
  EXPECT_EQ(arena.counts().bytes_held, 0);
}

TEST(Arena, ARequestBeyondTheReserveIsRefusedAndHarmsNothing) {
  Arena arena(64 * MB, plenty);
  EXPECT_EQ(arena.take(65 * MB), nullptr);
  EXPECT_EQ(arena.take(~std::size_t{0}), nullptr);
  void* const block = arena.take(40 * MB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(arena.take(40 * MB), nullptr);
  arena.give(block);
  EXPECT_NE(arena.take(63 * MB), nullptr);
}

TEST(Arena, AReserveThatTheSystemRefusesBecomesASmallerOne) {
  Arena arena(std::size_t{1} << 62, plenty);
  EXPECT_NE(arena.take(MB), nullptr);
}

TEST(Arena, ThreadsTakeAndGiveAtOnce) {
  Arena arena(plenty, 16 * MB);
  const auto work = [&arena](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<unsigned char*, std::size_t>> mine;
    for (int i = 0; i < 2000; ++i) {
      if (mine.size() < 8) {
        const std::size_t bytes = random() % MB + 1;
        mine.emplace_back(static_cast<unsigned char*>(arena.take(bytes)), bytes);
        mine.back().first[0] = mine.back().first[bytes - 1] = static_cast<unsigned char>(seed);
      } else {
        std::swap(mine[random() % mine.size()], mine.back());
        const auto [block, bytes] = mine.back();
        ASSERT_TRUE(block[0] == seed && block[bytes - 1] == seed);
        arena.give(block);
        mine.pop_back();
      }
    }
    for (const auto& [block, bytes] : mine) arena.give(block);
  };
  std::vector<std::thread> threads;
  for (unsigned seed : {1u, 2u, 3u, 4u}) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(arena.counts().bytes_in_use, 0);
}

}  // namespace
}  // namespace kha
