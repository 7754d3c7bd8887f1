// A look at the heads' features while a forward pass makes them; for observers, never in a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "kha/core/knock_setting.h"

namespace kha {

// Features [B, T, heads, D] of one layer's slot before and after its map; one and the same tensor
// where the slot has no map.
using HeadTap = std::function<void(int64_t layer, KnockSlot slot, const at::Tensor& before_BTHD,
                                   const at::Tensor& after_BTHD)>;

// While it lives, `tap` is called by every forward pass of this thread. Linear maps are then
// applied to the features, whatever the plan, since the plan in weight space has nothing to show.
class HeadTapScope {
 public:
  explicit HeadTapScope(const HeadTap& tap);
  ~HeadTapScope();
  HeadTapScope(const HeadTapScope&) = delete;
  HeadTapScope& operator=(const HeadTapScope&) = delete;

 private:
  const HeadTap* outer_;
};

// Null where nobody looks.
const HeadTap* current_head_tap();

}  // namespace kha
