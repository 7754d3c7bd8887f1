// A model in another form of the same attention.
//
// Another number of KV heads (grouped-query attention, arXiv 2305.13245, section 2.1): query head h
// of H reads KV head floor(h n / H), so KV heads that one new head replaces stand beside each
// other.
//
//   fewer   K and V of a new head are the mean of its n / m old heads, weights and biases alike
//   more    each old head is repeated m / n times: the same model, logit by logit
//
// Everything else stays. The norms have one gain of head width that all heads share; the maps are
// shared by all heads too, and neither width nor layer of them changes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/model_config.h"

namespace kha {

struct ConvertReport {
  ModelConfig before;
  ModelConfig after;
  bool exact;                         // both models compute the same
  std::vector<std::string> warnings;  // of check_tensors
  std::vector<std::string> copied;    // files that were taken along
  std::vector<std::string> left_out;  // files and folders that were not: they hold the old weights
};

// Reads the model folder `in`, writes it with `kv_heads` KV heads to the new folder `out`: same
// files, same shards, same types, other files (tokenizer, licence) copied. Means are taken in
// float64 and rounded once. `out` appears whole or not at all.
//
// Errors: `in` is no model or a damaged checkpoint; its attention is not `gqa`; `kv_heads` is the
// number that it has, does not divide the query heads, or neither divides the number of KV heads
// nor is a multiple of it; a weight is not finite; `out` exists; the disk.
ConvertReport convert_kv_heads(const std::filesystem::path& in, const std::filesystem::path& out,
                               int64_t kv_heads);

// The same with its rotated channels in `layout`, "half_split" (channel i turns with i + w/2) or
// "interleaved" (2i with 2i + 1): rows of the projections, their biases, gains of the norms and the
// maps on q and k are permuted, nothing is rounded, and both models compute the same.
//
// Errors: `in` is no model or a damaged checkpoint; it has this layout already; the layout is
// unknown; a weight is not finite; `out` exists; the disk.
ConvertReport convert_rotary_layout(const std::filesystem::path& in,
                                    const std::filesystem::path& out, const std::string& layout);

}  // namespace kha
