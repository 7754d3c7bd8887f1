// Do two arms have events equally often? An exact answer for small counts.
#pragma once

#include <cstdint>

namespace kha {

// Two-sided p-value of `first` and `second` events in `first_steps` and `second_steps` steps, when
// both arms have them equally often: given their sum, `first` is then binomial with probability
// first_steps / (first_steps + second_steps). Sums the probabilities of all splits that are no more
// likely than the one seen (1 where no event was seen). Needs counts from 0 and steps above 0.
double exact_test(int64_t first, int64_t second, int64_t first_steps, int64_t second_steps);

// No event in `steps` steps: the upper 95 % bound of their frequency a step, by the rule of three.
double bound_without_events(int64_t steps);

}  // namespace kha
