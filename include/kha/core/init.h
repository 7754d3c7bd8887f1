// How a parameter starts.
#pragma once

namespace kha {

// normal: mean 0, standard deviation initializer_range. identity: of a square matrix. blocks: row i
// of n is one on the i-th of n equal stretches of columns, else zero.
enum class Init { normal, zeros, ones, identity, blocks };

}  // namespace kha
