// What a pass of the decoder is given, checked before a number is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/core/rotary_scaling.h"
#include "modules/kv_cache.h"
#include "modules/packed_layout.h"
#include "modules/rotary.h"

namespace kha {

// Documents that fill ids [batch, length] and stand in no cache; padding of that shape, the cached
// positions in front.
void check_layout(const PackedLayout& layout, int64_t batch, int64_t length, const KvCache* cache);

// One position a token, each below `room`; looked at on the CPU alone.
void check_positions(const at::Tensor& positions, int64_t tokens, int64_t room);
[[noreturn]] void refuse_length(int64_t length, int64_t room);

// Keys cached in a shorter text must have been turned by the frequencies of a text of `reach`
// positions, the last `length` of which are new.
void check_frequencies(const RotaryScaling& scaling, const RotaryTable& rotary, int64_t cached,
                       int64_t length, int64_t reach);

// A cache is written in place, over values that a backward pass would still need.
void refuse_gradient(const CacheEntry& entry);
[[noreturn]] void refuse_cache_with_recomputation();

}  // namespace kha
