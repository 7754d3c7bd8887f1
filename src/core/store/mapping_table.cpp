#include "core/store/mapping_table.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace kha {
namespace {

struct Slot {
  std::atomic<std::uintptr_t> begin{0};  // 0: free. Written last, read first.
  std::size_t size = 0;
  char path[248] = {};
};

// A handler may run in the middle of anything: blocks are linked once they are whole, and stay.
struct Block {
  std::array<Slot, 512> slots;
  std::atomic<Block*> next{nullptr};
};

Block first;
std::mutex mutex;

std::uintptr_t address_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

Slot* free_slot() {
  for (Block* block = &first;; block = block->next.load()) {
    for (Slot& slot : block->slots) {
      if (slot.begin.load() == 0) return &slot;
    }
    if (block->next.load() == nullptr) block->next.store(new Block);
  }
}

}  // namespace

void remember_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex);
  Slot& slot = *free_slot();
  slot.size = bytes.size();
  const std::size_t length = path.native().copy(slot.path, sizeof slot.path - 1);
  slot.path[length] = '\0';
  slot.begin.store(address_of(bytes));
}

void forget_mapping(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(mutex);
  for (Block* block = &first; block != nullptr; block = block->next.load()) {
    for (Slot& slot : block->slots) {
      if (slot.begin.load() == address_of(bytes)) slot.begin.store(0);
    }
  }
}

const char* file_mapped_at(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Block* block = &first; block != nullptr; block = block->next.load()) {
    for (const Slot& slot : block->slots) {
      const std::uintptr_t begin = slot.begin.load();
      if (begin != 0 && at >= begin && at - begin < slot.size) return slot.path;
    }
  }
  return nullptr;
}

}  // namespace kha
