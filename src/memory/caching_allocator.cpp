#include "memory/caching_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kha/core/error.h"
#include "kha/core/machine_facts.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

// Never destroyed: tensors of static objects are freed after every destructor of this program.
Arena& arena() {
  // Twice the memory there is: free stretches between blocks in use need addresses, not memory.
  static Arena* const whole = [] {
    const std::int64_t known = machine_facts().memory;
    const auto memory = static_cast<std::size_t>(known > 0 ? known : std::int64_t{16} << 30);
    return new Arena(2 * memory, memory / 2);
  }();
  return *whole;
}

// In front of a block outside the arena, to be known again when it is freed: its size, in as many
// bytes as torch aligns to.
constexpr std::size_t header = c10::gAlignment;
static_assert(header >= sizeof(std::int64_t));

std::int64_t& size_of(void* start) { return *static_cast<std::int64_t*>(start); }

void* take_outside(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // Nothing is as large: torch's own refusal, which names what was asked.
  if (bytes > SIZE_MAX - header) return c10::alloc_cpu(bytes);
  void* const start = c10::alloc_cpu(bytes + header);
  size_of(start) = static_cast<std::int64_t>(bytes);
  arena().count_outside(size_of(start));
  return static_cast<char*>(start) + header;
}

void free_outside(void* block) {
  if (!block) return;
  void* const start = static_cast<char*>(block) - header;
  arena().count_outside(-size_of(start));
  c10::free_cpu(start);
}

void free_block(void* block) {
  if (arena().owns(block))
    arena().give(block);
  else
    free_outside(block);
}

void* take_block(std::size_t bytes) {
  if (bytes < least_arena_bytes) return take_outside(bytes);
  if (void* const block = arena().take(bytes)) return block;
  try {
    return take_outside(bytes);
  } catch (const c10::Error&) {
    arena().release();  // what is free may be what is missing; if not, the error is torch's own
    return take_outside(bytes);
  }
}

class CachingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const block = take_block(bytes);
    return {block, block, &free_block, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

c10::Allocator* caching_allocator() {
  static auto* const allocator = new CachingAllocator;
  return allocator;
}

std::string name_of_environment() {
  const char* const name = std::getenv("KHA_ALLOCATOR");
  return name && *name ? name : "caching";
}

}  // namespace

void choose_allocator(const std::string& name) {
  const bool by_environment = name == "auto";
  const std::string chosen = by_environment ? name_of_environment() : name;
  static const std::vector<std::string> names{"caching", "system"};
  if (chosen != names[0] && chosen != names[1]) {
    fail({.what = "`" + chosen + "` is not an allocator" + did_you_mean(chosen, names),
          .where = by_environment ? "the environment variable KHA_ALLOCATOR" : "train.allocator",
          .expected = "caching or system",
          .found = chosen});
  }
  c10::SetCPUAllocator(chosen == "caching" ? caching_allocator() : c10::GetDefaultCPUAllocator());
}

std::string chosen_allocator() {
  return c10::GetCPUAllocator() == caching_allocator() ? "caching" : "system";
}

ArenaCounts arena_counts() { return arena().counts(); }

void release_free_memory() {
  arena().release();
  arena().reset_peak();
}

}  // namespace kha
