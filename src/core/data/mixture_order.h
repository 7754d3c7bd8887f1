// Which source each sequence of a run comes from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kha {

// A periodic order in which, after any number of sequences, each source has had its share to within
// one sequence. Weights are taken as multiples of 1/period: exactly where a period up to 65,536
// allows it, else rounded to 1/65,536.
class MixtureOrder {
 public:
  // Throws Error when a weight is not a number above 0, or rounds to nothing.
  explicit MixtureOrder(std::span<const double> weights);

  std::int64_t source(std::int64_t sequence) const {
    return order_[static_cast<std::size_t>(sequence % period())];
  }
  // Sequences of `source` before that one.
  std::int64_t before(std::int64_t sequence, std::int64_t source) const;

  std::int64_t period() const { return static_cast<std::int64_t>(order_.size()); }
  // Sequences of `source` in a period.
  std::int64_t share(std::int64_t source) const { return shares_[source]; }

 private:
  void make_order();

  std::vector<std::int64_t> shares_;
  std::vector<std::uint32_t> order_;
  std::vector<std::vector<std::uint32_t>> places_;  // of each source in the order
};

}  // namespace kha
