// A region of address space that gives out large blocks and keeps what is freed.
//
// A training step frees and takes the same tensors again and again. Given back to the system, each
// comes back as fresh pages that must be cleared, one fault each: on some machines that costs more
// than the arithmetic. The arena keeps the pages: the smallest free block that fits is cut to size,
// freed neighbours grow together, so what it holds stays near what was in use at once. It asks for
// huge pages by advice, which makes a first touch hundreds of times rarer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace kha {

struct ArenaCounts {
  std::int64_t bytes_in_use = 0;
  std::int64_t peak_in_use = 0;      // since the start or the last reset_peak
  std::int64_t bytes_held = 0;       // in use or free but kept; an upper bound
  std::int64_t requests = 0;         // blocks taken
  std::int64_t hits = 0;             // of these, served without asking the system
  std::int64_t system_requests = 0;  // calls that took address space into use or gave pages back
};

// Bytes that are in use now and were at most; safe to use from several threads without a lock.
class UseCount {
 public:
  void add(std::int64_t bytes);
  void reset_peak() {
    peak_ = now_.load();
    add(0);  // what came between reading and writing counts too
  }
  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::atomic<std::int64_t> now_ = 0, peak_ = 0;
};

// Safe to use from several threads.
class Arena {
 public:
  // Reserves address space, which costs no memory: `reserve` bytes, or less where the system limits
  // it. Free memory above `keep` is given back.
  Arena(std::size_t reserve, std::size_t keep);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block of at least `bytes` (more than 0), 64-byte aligned, or null where the reserve is used
  // up or the system refuses more.
  void* take(std::size_t bytes);
  // Takes a block back; it must be one of this arena's.
  void give(void* block);
  // Whether the address is one of this arena's.
  bool owns(const void* address) const;

  // Counts bytes that lie elsewhere as in use too, or no longer (below 0).
  void count_outside(std::int64_t bytes) { use_.add(bytes); }

  // Gives the pages of every free block back to the system, and the address space behind the last
  // block in use.
  void release();
  // Lets the peak start anew from what is in use now.
  void reset_peak();
  ArenaCounts counts() const;

 private:
  struct Block {
    std::size_t bytes;
    std::size_t kept;  // at most this many bytes are with the process; all of a block in use
    bool free;
  };
  using Blocks = std::map<char*, Block>;  // by address, without gaps from begin_ to top_

  void* take_free(std::size_t bytes);
  bool grow(std::size_t bytes);
  Blocks::iterator add_free(char* begin, std::size_t bytes, std::size_t kept);
  void forget_free(Blocks::iterator block);
  void join_with_next(Blocks::iterator block);
  void give_back_pages(Blocks::iterator block);
  void lower_top();
  void release_locked();

  char* begin_ = nullptr;
  char* top_ = nullptr;  // blocks lie below it; above it is only address space
  char* end_ = nullptr;
  char* touched_ = nullptr;  // beyond it no block was ever given out
  const std::size_t keep_;
  std::size_t kept_free_ = 0;  // bytes of free blocks that are with the process
  mutable std::mutex mutex_;
  Blocks blocks_;
  std::set<std::pair<std::size_t, char*>> free_;  // by size, then address
  UseCount use_;
  ArenaCounts counts_;  // but for what is in use
};

}  // namespace kha
