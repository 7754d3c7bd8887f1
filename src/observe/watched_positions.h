// The batch that observers look at, as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/core/batch.h"

namespace kha {

// Rows of [B T] that are text: padding belongs to no document. int64.
at::Tensor text_positions_of(const Batch& batch);
// [B, T] int64
at::Tensor ids_of(const Batch& batch);

}  // namespace kha
