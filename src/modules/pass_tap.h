// A look at what attention and routers compute while a forward pass makes it; for observers, never
// in a step. Layers come in their order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace kha {

struct PassTap {
  // What the router of a layer reads, [B, T, d].
  std::function<void(int64_t layer, const at::Tensor& x_BTd)> routed;
  // Logits before the softmax are queries times keys over the root of their width: queries
  // [B, T, H, D], keys [B, S, H_kv, D].
  std::function<void(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD)> attended;
  // Of systems that form them: logits [B, H, T, S], to be multiplied by `scale`.
  std::function<void(const at::Tensor& logits_BHTS, double scale)> weighed;
};

// While it lives, every forward pass of this thread calls what `tap` has.
class PassTapScope {
 public:
  explicit PassTapScope(const PassTap& tap);
  ~PassTapScope();
  PassTapScope(const PassTapScope&) = delete;
  PassTapScope& operator=(const PassTapScope&) = delete;

 private:
  const PassTap* outer_;
};

// Null where nobody looks.
const PassTap* current_pass_tap();

}  // namespace kha
