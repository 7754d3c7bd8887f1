// How much memory training takes, before any of it is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "kha/core/model_config.h"
#include "kha/core/parameter_table.h"

namespace kha {

// A micro-batch as a device sees it.
struct BatchShape {
  int64_t rows = 8;        // sequences
  int64_t context = 256;   // tokens each
  int64_t accumulate = 1;  // micro-batches a step
  bool recompute = false;  // each layer runs again in the backward pass
  // Linear maps in the weights: knock.plan; nothing: as `auto` chooses.
  std::optional<bool> maps_in_weights = {};
  bool document_mask = false;  // each document is attended for itself
  int64_t tokens() const { return rows * context; }
};

// What of the model a step changes.
struct Training {
  std::set<Role> frozen = {};  // groups that stay as they are
  bool trains(Role role) const { return !frozen.contains(role); }
};

// Bytes that kha's own loop has in tensors when it has the most: float32, one process. Follows the
// step: what each operator keeps for its backward pass, layer by layer, beside weights, moments and
// the gradients that are there by then. Measured within 5 % (docs/training.md) for every attention
// system, experts, recomputation, micro-batches and frozen groups, which have neither gradient nor
// moments, and whose products keep no input; experts as with a fresh router.
struct StepMemory {
  double weights = 0;    // 4 bytes a parameter
  double copies = 0;     // of them in the arithmetic's type, 2 where it is bf16
  double moments = 0;    // 8 a trained parameter
  double gradients = 0;  // of all trained parameters, 4; not all are there at the peak
  double kept = 0;       // activations, of all layers
  double peak = 0;       // of everything together, at the worst moment
};
StepMemory predict_step_memory(const ModelConfig& config, const BatchShape& batch,
                               const Training& training = {});

// The same with bf16 arithmetic (train.precision = bf16), whose weights, moments and gradients stay
// float32. Nothing for a model that is not counted in it: with another attention than grouped
// queries, or without norms of queries and keys that rotate.
std::optional<StepMemory> predict_bf16_step_memory(const ModelConfig& config,
                                                   const BatchShape& batch,
                                                   const Training& training = {});

// Fully sharded training in bf16 (torchtitan, FSDP2), bytes a device. State is 16 a parameter in
// both usual layouts: float32 master and two moments, and either float32 gradients or bf16 weights
// and bf16 gradients.
struct ShardedMemory {
  double state = 0;  // of all devices together
  double state_a_device = 0;
  double layer = 0;            // the largest layer gathered, bf16; two are there at once
  double embedding = 0;        // gathered, bf16
  double layer_gradients = 0;  // of that layer before they are scattered, float32
  double activations = 0;      // checkpointed: one input a layer, bf16
  double recomputed = 0;       // what one layer keeps while it runs backward, bf16
  double logits = 0;           // float32, unless the loss goes by chunks
  // With the loss by chunks: all of the above but the logits, the layer twice.
  double peak() const;
};
ShardedMemory predict_sharded_memory(const ModelConfig& config, const BatchShape& batch,
                                     int64_t devices);

}  // namespace kha
