// The routers of one optimiser step, over all of its micro-batches.
#pragma once

#include <memory>
#include <vector>

#include "kha/core/batch.h"
#include "kha/core/model_config.h"
#include "modules/experts/router_record.h"

namespace kha {

// Weights of the losses beside the cross-entropy, each a mean over the whole step: of the load
// over layers summed, of the routers' and of the output's squared log-sum-exp. 0: none.
struct AuxiliaryLosses {
  double balance = 0;
  double router_z = 0;
  double output_z = 0;
};

// Of each layer how often each expert was chosen, [E] int64; undefined for dense layers.
using ExpertCounts = std::vector<at::Tensor>;

// Makes the record of each pass, so that cutting a batch changes nothing, and adds up their counts.
class RouterStep {
 public:
  RouterStep(const ModelConfig& config, const AuxiliaryLosses& losses,
             const std::vector<Batch>& micro_batches);

  // Whether the shares of the whole step must be counted before the first gradient: the balance
  // loss multiplies them with scores of every micro-batch.
  bool counts_first() const { return counts_first_; }
  // Ends that first round: the counts so far become the shares of every later record.
  void end_first_round();

  // Null for a model without experts.
  std::shared_ptr<RouterRecord> record(const Batch& batch, at::Device device) const;
  void add(const RouterRecord& record);
  const ExpertCounts& counts() const { return counts_; }

 private:
  ModelConfig config_;
  AuxiliaryLosses losses_;
  int64_t tokens_ = 0;  // of the step, without padding
  bool counts_first_ = false;
  ExpertCounts counts_;
  std::vector<at::Tensor> shares_;
};

}  // namespace kha
