#include "memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>

namespace kha {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t growth = std::size_t{32} << 20;
constexpr std::size_t page = 4096;
constexpr std::size_t line = 64;
// Blocks of equal power-of-two sizes would begin at equal addresses modulo 4096, where a load waits
// for an earlier store to the other block's same offset; 17 lines move each one on from the last.
constexpr std::size_t stagger = 17 * line;
// A remainder smaller than this stays with its block.
constexpr std::size_t least_remainder = 16 << 10;

constexpr std::size_t up_to(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

char* up_to(char* address, std::size_t unit) {
  return address + (up_to(reinterpret_cast<std::uintptr_t>(address), unit) -
                    reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace

void UseCount::add(std::int64_t bytes) {
  const std::int64_t now = now_.fetch_add(bytes) + bytes;
  std::int64_t peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

Arena::Arena(std::size_t reserve, std::size_t keep) : keep_(keep) {
  for (std::size_t bytes = up_to(reserve, growth); bytes >= growth; bytes /= 2) {
    void* const region = mmap(nullptr, bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                              /*fd=*/-1, /*offset=*/0);
    if (region == MAP_FAILED) continue;  // a limit on address space: try with less
    begin_ = top_ = touched_ = up_to(static_cast<char*>(region), huge_page);
    end_ = begin_ + bytes / huge_page * huge_page;
    madvise(begin_, static_cast<std::size_t>(end_ - begin_), MADV_HUGEPAGE);
    return;
  }
}

Arena::~Arena() {
  if (begin_) munmap(begin_, static_cast<std::size_t>(end_ - begin_));
}

bool Arena::owns(const void* address) const { return address >= begin_ && address < end_; }

void* Arena::take(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(end_ - begin_)) return nullptr;
  bytes = up_to(bytes, line) + stagger;
  const std::lock_guard lock(mutex_);
  counts_.requests += 1;
  if (void* const block = take_free(bytes)) {
    counts_.hits += 1;
    return block;
  }
  return grow(bytes) ? take_free(bytes) : nullptr;
}

// The smallest free block that fits, cut to size; null where none does.
void* Arena::take_free(std::size_t bytes) {
  const auto found = free_.lower_bound({bytes, nullptr});
  if (found == free_.end()) return nullptr;
  const auto block = blocks_.find(found->second);
  forget_free(block);
  const std::size_t rest = block->second.bytes - bytes;
  const bool cut = rest >= least_remainder;
  touched_ = std::max(touched_, block->first + block->second.bytes - (cut ? rest : 0));
  if (cut) add_free(block->first + bytes, rest, std::min(rest, block->second.kept));
  if (!cut) bytes = block->second.bytes;
  block->second = {.bytes = bytes, .kept = bytes, .free = false};
  use_.add(static_cast<std::int64_t>(bytes));
  return block->first;
}

// Moves the top up until the last block is free and has `bytes`.
bool Arena::grow(std::size_t bytes) {
  const bool joins = !blocks_.empty() && std::prev(blocks_.end())->second.free;
  const std::size_t there = joins ? std::prev(blocks_.end())->second.bytes : 0;
  const auto left = static_cast<std::size_t>(end_ - top_);
  if (bytes - there > left) return false;
  const std::size_t more = std::min(up_to(bytes - there, growth), left);
  if (mprotect(top_, more, PROT_READ | PROT_WRITE) != 0) return false;
  counts_.system_requests += 1;
  const auto block = add_free(top_, more, /*kept=*/0);
  top_ += more;
  if (joins) join_with_next(std::prev(block));
  return true;
}

void Arena::give(void* address) {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.find(static_cast<char*>(address));
  assert(block != blocks_.end() && !block->second.free && "a block is given back once");
  use_.add(-static_cast<std::int64_t>(block->second.bytes));
  block = add_free(block->first, block->second.bytes, block->second.kept);
  join_with_next(block);
  if (block != blocks_.begin()) join_with_next(std::prev(block));
  if (kept_free_ > keep_) release_locked();
}

Arena::Blocks::iterator Arena::add_free(char* begin, std::size_t bytes, std::size_t kept) {
  kept = std::min(kept, touched_ > begin ? static_cast<std::size_t>(touched_ - begin) : 0);
  free_.emplace(bytes, begin);
  kept_free_ += kept;
  return blocks_.insert_or_assign(begin, Block{bytes, kept, /*free=*/true}).first;
}

void Arena::forget_free(Blocks::iterator block) {
  free_.erase({block->second.bytes, block->first});
  kept_free_ -= block->second.kept;
}

void Arena::join_with_next(Blocks::iterator block) {
  const auto next = std::next(block);
  if (next == blocks_.end() || !block->second.free || !next->second.free) return;
  const Block first = block->second, second = next->second;
  forget_free(block);
  forget_free(next);
  blocks_.erase(next);
  add_free(block->first, first.bytes + second.bytes, first.kept + second.kept);
}

void Arena::release() {
  const std::lock_guard lock(mutex_);
  release_locked();
}

void Arena::release_locked() {
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.free && block->second.kept > 0) give_back_pages(block);
  }
  lower_top();
}

void Arena::give_back_pages(Blocks::iterator block) {
  char* const begin = up_to(block->first, page);
  char* const end = up_to(block->first + block->second.bytes + 1 - page, page);
  if (end > begin) madvise(begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED);
  counts_.system_requests += 1;
  kept_free_ -= block->second.kept;
  block->second.kept = 0;
}

// A free last block becomes bare address space, which counts against no limit on memory.
void Arena::lower_top() {
  if (blocks_.empty() || !std::prev(blocks_.end())->second.free) return;
  const auto last = std::prev(blocks_.end());
  char* const top = up_to(last->first, huge_page);
  if (top >= top_) return;
  const auto bytes = static_cast<std::size_t>(top_ - top);
  mmap(top, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, /*fd=*/-1, /*offset=*/0);
  madvise(top, bytes, MADV_HUGEPAGE);
  counts_.system_requests += 1;
  const std::size_t rest = static_cast<std::size_t>(top - last->first);
  forget_free(last);
  if (rest > 0)
    add_free(last->first, rest, /*kept=*/0);
  else
    blocks_.erase(last);
  top_ = top;
  touched_ = std::min(touched_, top);
}

void Arena::reset_peak() { use_.reset_peak(); }

ArenaCounts Arena::counts() const {
  const std::lock_guard lock(mutex_);
  ArenaCounts counts = counts_;
  counts.bytes_in_use = use_.now();
  counts.peak_in_use = use_.peak();
  counts.bytes_held = counts.bytes_in_use + static_cast<std::int64_t>(kept_free_);
  return counts;
}

}  // namespace kha
