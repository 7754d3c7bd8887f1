// Rows of heads, pooled to fewer heads or repeated to more.
#pragma once

#include <cstdint>
#include <vector>

namespace kha {

// `rows`: [from, elements of a head] row-major; returns [to, elements of a head]. With fewer heads
// a new one is the mean of the from / to old ones that stand together, with more each old one is
// there to / from times. One of the numbers divides the other.
std::vector<double> change_head_count(const std::vector<double>& rows, int64_t from, int64_t to);

}  // namespace kha
