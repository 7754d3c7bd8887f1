// How many bytes of tensors are alive on the CPU, and how many were at most.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>

namespace kha::test {

// Stands before the CPU allocator while it lives; tensors may outlive it.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 100); }
  ~CountingAllocator() override { c10::SetCPUAllocator(before_, 100); }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr inner = before_->allocate(bytes);
    void* data = inner.get();
    live += static_cast<std::int64_t>(bytes);
    peak = std::max(peak, live);
    return {data, new Block{std::move(inner), static_cast<std::int64_t>(bytes)}, release,
            c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  // The most bytes that `work` had allocated at once, beyond those before it.
  template <class Work>
  static std::int64_t peak_of(const Work& work) {
    const CountingAllocator counting;
    live = peak = 0;
    work();
    return peak;
  }

  // Static: a block that outlives its allocator is counted still.
  static inline std::int64_t live = 0, peak = 0;

 private:
  struct Block {
    c10::DataPtr inner;
    std::int64_t bytes;
  };
  static void release(void* block) {
    live -= static_cast<Block*>(block)->bytes;
    delete static_cast<Block*>(block);
  }

  c10::Allocator* before_;
};

}  // namespace kha::test
