#include "memory/caching_allocator.h"

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "kha/core/error.h"

namespace kha {
namespace {

// Each test leaves torch's own allocator as it found it.
class CachingAllocator : public testing::Test {
 protected:
  void SetUp() override { choose_allocator("caching"); }
  void TearDown() override { choose_allocator("system"); }
};

std::int64_t in_use() { return arena_counts().bytes_in_use; }

TEST_F(CachingAllocator, LargeTensorsComeFromTheArenaAndReturnToIt) {
  const std::int64_t before = in_use();
  {
    const at::Tensor x = at::ones({1000, 1000});
    EXPECT_GE(in_use() - before, 4000000);
    EXPECT_EQ(x.sum().item<double>(), 1e6);
  }
  EXPECT_EQ(in_use(), before);
}

TEST_F(CachingAllocator, SmallAndEmptyTensorsDoNot) {
  const std::int64_t before = arena_counts().requests;
  const at::Tensor small = at::ones({100}), empty = at::empty({0, 5});
  EXPECT_EQ(arena_counts().requests, before);
  EXPECT_EQ(small.sum().item<double>(), 100);
  EXPECT_EQ(empty.data_ptr(), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data_ptr()) % 64, 0u);
}

TEST_F(CachingAllocator, SmallTensorsAreCountedToTheByte) {
  release_free_memory();
  const std::int64_t before = in_use();
  {
    const at::Tensor x = at::empty({100}), y = at::empty({7}, at::kByte);
    EXPECT_EQ(in_use() - before, 407);
  }
  EXPECT_EQ(in_use(), before);
  EXPECT_EQ(arena_counts().peak_in_use, before + 407);
}

TEST_F(CachingAllocator, ATensorOutlivesAChangeOfAllocator) {
  const std::int64_t before = in_use();
  at::Tensor cached = at::ones({1 << 20});
  choose_allocator("system");
  EXPECT_EQ(chosen_allocator(), "system");
  at::Tensor plain = at::ones({1 << 20});
  choose_allocator("caching");
  EXPECT_GT(in_use(), before);
  plain.reset();
  cached.reset();
  EXPECT_EQ(in_use(), before);
}

TEST_F(CachingAllocator, ATensorMayBeResizedAndFreedByAnotherThread) {
  const std::int64_t before = in_use();
  at::Tensor x = at::ones({1 << 20});
  x.resize_({3 << 20});
  EXPECT_EQ(x.narrow(0, 0, 1 << 20).sum().item<double>(), 1 << 20);
  std::thread([moved = std::move(x)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(in_use(), before);
}

TEST_F(CachingAllocator, RawBlocksWorkAsTorchAsks) {
  c10::Allocator* const allocator = c10::GetCPUAllocator();
  for (std::size_t bytes : {std::size_t{16}, std::size_t{1} << 20}) {
    void* const block = allocator->raw_allocate(bytes);
    ASSERT_NE(block, nullptr);
    allocator->raw_deallocate(block);
  }
}

TEST_F(CachingAllocator, MoreThanThereIsIsTorchsOwnErrorWithTheSize) {
  try {
    at::empty({int64_t{1} << 50}, at::kFloat);
    FAIL() << "a petabyte was given out";
  } catch (const std::exception& error) {
    // With the size that stands in front of a block outside the arena.
    EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string((int64_t{1} << 52) + 64)));
  }
  EXPECT_EQ(at::ones({1 << 20}).sum().item<double>(), 1 << 20);
}

TEST_F(CachingAllocator, ReleaseEmptiesItAndResetsThePeak) {
  at::ones({8 << 20});
  EXPECT_GE(arena_counts().peak_in_use, 32 << 20);
  release_free_memory();
  EXPECT_EQ(arena_counts().peak_in_use, in_use());
  EXPECT_EQ(arena_counts().bytes_held, in_use());
}

TEST_F(CachingAllocator, TheEnvironmentChoosesForAuto) {
  setenv("KHA_ALLOCATOR", "system", 1);
  choose_allocator("auto");
  EXPECT_EQ(chosen_allocator(), "system");
  setenv("KHA_ALLOCATOR", "cashing", 1);
  try {
    choose_allocator("auto");
    FAIL() << "an unknown allocator was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("KHA_ALLOCATOR"));
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean `caching`"));
  }
  unsetenv("KHA_ALLOCATOR");
  choose_allocator("auto");
  EXPECT_EQ(chosen_allocator(), "caching");
}

}  // namespace
}  // namespace kha
