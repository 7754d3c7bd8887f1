// AdamW over named groups, with torch's fused update. State is kept and saved by parameter name.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "kha/core/parameter_table.h"
#include "kha/core/run_config.h"
#include "modules/parameters.h"

namespace kha {

enum class KnockDecay { paper, none, to_identity };

// `auto` is the paper's rule (as any matrix) from scratch, and towards the identity when the run
// starts from another model's weights.
KnockDecay resolve_knock_decay(const RunConfig& config);
std::string to_string(KnockDecay decay);

struct GroupSummary {
  std::string name;
  int64_t tensors = 0;
  int64_t parameters = 0;
  double lr_scale = 1;
  double weight_decay = 0;
  std::string decays_to = "nothing";  // "zero", "identity", "nothing"
  bool frozen = false;
};

// One parameter's moments, and how many steps they have seen (a float, as the update wants it).
struct Moments {
  at::Tensor mean, square, steps;
};

class Optimizer {
 public:
  // Parameters of frozen groups lose requires_grad, all others gain it.
  Optimizer(const RunConfig& config, const std::vector<ParameterSpec>& table,
            const Parameters& parameters);

  // One update with the parameters' gradients, which must be there and finite; then forgets them.
  void step(double lr);

  // Forgets the gradients: no parameter and no moment changes.
  void drop_gradients();

  // The trainable tensors with their names, in the order of the table.
  const std::vector<std::pair<std::string, at::Tensor>>& trainable() const { return trainable_; }
  std::vector<GroupSummary> groups() const;

  // Fresh moments are zeros. `set` copies into place.
  const Moments& moments(const std::string& name) const { return moments_.at(name); }
  bool has(const std::string& name) const { return moments_.count(name) > 0; }
  void set(const std::string& name, const Moments& moments);

 private:
  struct Group {
    GroupSummary summary;
    std::vector<at::Tensor> parameters = {};
    std::vector<Moments> moments = {};
    std::vector<at::Tensor> targets = {};  // of a decay to the identity
  };
  void update(Group& group, double lr);

  OptimizerOptions options_;
  std::vector<Group> groups_;
  std::vector<std::pair<std::string, at::Tensor>> trainable_;
  std::unordered_map<std::string, Moments> moments_;
};

}  // namespace kha
