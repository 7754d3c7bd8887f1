// One layer's attention with a full cache and one token more: the work of a decode step, for
// measuring.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "modules/kv_cache.h"

namespace kha {

class DecodeBench {
 public:
  // Caches `positions` positions of some x; every step decodes the position behind them. Parameters
  // of a model of one layer in float32, whose device is that of the work.
  DecodeBench(const ModelConfig& config, const Parameters& parameters, int64_t batch,
              int64_t positions, KvCacheKind kind);

  // "attend", and of latent systems "absorbed", "formed" (keys and values of every position anew in
  // each step) and, without maps, "kept" (a cache of all keys and values, laid out by head).
  std::vector<std::string> forms() const;
  // One step: projections, cache, attention, output projection; [B, 1, d]. Fails for another form.
  at::Tensor step(const std::string& form);
  // Of one layer at positions + 1.
  int64_t cache_bytes(const std::string& form) const;

  // x [B, T, d] of positions first .. first + T - 1: sin(1.7 (b S + p) d + 1.7 i + 0.3) of channel
  // i, with S positions in all; the layer's input in any implementation.
  static at::Tensor some_input(int64_t batch, int64_t all, int64_t first, int64_t length,
                               int64_t width);

 private:
  at::Tensor step_from_kept_heads() const;
  void keep_heads();
  void check_form(const std::string& form) const;

  ModelConfig config_;
  int64_t positions_;
  at::Tensor kv_b_, next_;
  RotaryTable rotary_;
  std::map<std::string, std::unique_ptr<Attention>> by_form_;
  KvCache cache_;
  at::Tensor keys_BHSD_, values_BHSD_;  // of "kept"
};

}  // namespace kha
