// What stood beside a model and did not go along with a changed copy of it.
#pragma once

#include <string>
#include <vector>

namespace kha::cli {

// A line a file; the model's Python files, which leave together, share one.
void print_left_out(const std::vector<std::string>& names);

}  // namespace kha::cli
