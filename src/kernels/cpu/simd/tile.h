// The one matrix product of the map kernels: a tile of C in registers.
//
// C [M, tile_columns] (+)= sum over k < depth of a(i, k) * b[k, :], accumulated in registers over
// the whole depth. What decides the speed is that the loop holds nothing but loads, broadcasts and
// multiply-adds of registers: left alone, GCC folds loads into the multiply-adds and spills
// (measured: the same loop then runs anywhere between a third and all of the processor's rate).
// Hence the pins, and a function of its own, not inlined, for each height.
#pragma once

#include "kernels/cpu/simd/vector.h"

namespace kha::cpu::KHA_SET {

// A tile is tile_vectors vectors wide and at most tile_rows high: with the vectors of b and one
// broadcast it fills the registers, of which AVX2 has 16 and AVX-512 has 32.
#if defined(__AVX512F__)
constexpr int tile_vectors = 2, tile_rows = 12;
#elif defined(__AVX2__)
constexpr int tile_vectors = 2, tile_rows = 6;
#else
constexpr int tile_vectors = 4, tile_rows = 2;
#endif
constexpr std::int64_t tile_columns = tile_vectors * lanes;

// Keeps a value in a register: the compiler must not fold its load into the next operation.
KHA_INLINE void pin([[maybe_unused]] Vector& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#elif defined(__AVX2__)
  asm("" : "+x"(value));
#endif
}

// How a(i, k) lies: rows of A as they are, or A transposed, where i runs along adjacent values.
enum class Side { rows, transposed };

struct TileInput {
  const float* a;       // a(i, k) = a[i * a_stride + k], transposed a[k * a_stride + i]
  std::int64_t a_stride;
  const float* b;       // b[k * b_stride + column]
  std::int64_t b_stride;
  std::int64_t depth;
};

template <int M, Side side>
[[gnu::noinline]] void tile(const TileInput& in, float* c, std::int64_t c_stride, bool add_to_c) {
  Vector sum[M][tile_vectors];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) {
      sum[i][j] = add_to_c ? load(c + i * c_stride + j * lanes) : zero();
    }
  }
  const float *a = in.a, *b = in.b;
  const std::int64_t a_stride = in.a_stride, b_stride = in.b_stride;
  for (std::int64_t k = in.depth; k > 0; --k) {
    Vector row[tile_vectors];
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) {
      row[j] = load(b + j * lanes);
      pin(row[j]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      Vector value = all(a[side == Side::rows ? i * a_stride : i]);
      pin(value);
#pragma GCC unroll 4
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = fma(value, row[j], sum[i][j]);
    }
    a += side == Side::rows ? 1 : a_stride;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) store(c + i * c_stride + j * lanes, sum[i][j]);
  }
}

}  // namespace kha::cpu::KHA_SET
