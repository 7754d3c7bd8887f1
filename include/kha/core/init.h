// How a parameter starts.
#pragma once

namespace kha {

// normal: mean 0, standard deviation initializer_range. identity: of a square matrix. blocks: row i
// of n is one on the i-th of n equal stretches of columns, else zero. mixing: mean 0, standard
// deviation 0.2, the start of a mixing of heads that has no such stretches.
enum class Init { normal, zeros, ones, identity, blocks, mixing };

}  // namespace kha
