// Is one arm better than another? Mean differences with 95 % intervals that say what they cover.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kha {

struct Interval {
  double mean = 0;
  double low = 0, high = 0;  // 95 %
  bool excludes_zero() const { return low > 0 || high < 0; }
};

// Over seeds: differences of the same seed's final losses, Student's t. Needs at least two.
Interval interval_over_seeds(const std::vector<double>& differences);

struct DocumentLoss {
  double nats = 0;  // summed over the document's counted targets
  int64_t targets = 0;
};
using DocumentLosses = std::map<int64_t, DocumentLoss>;  // by document index in the shard

// Over documents, both arms on the same targets: difference of the losses per target, with the
// linearised variance of a ratio (documents drawn, not tokens: tokens of one file hang together).
// It says how the two trained models differ on such text, not how far another seed would fall.
Interval interval_over_documents(const DocumentLosses& arm, const DocumentLosses& reference);

// The two-sided 95 % quantile of Student's t.
double student_t_95(int64_t degrees_of_freedom);

}  // namespace kha
