// One float32 vector of the instruction set that a file is compiled for, and what kernels do to it.
//
// Every file of this folder is compiled once for each set, with KHA_SET the set's name; all its
// code stands in namespace kha::cpu::KHA_SET. Such a file may define nothing with a name that all
// sets share (an inline function of a header, a template of the standard library): the linker
// would keep one copy, compiled for a set that the processor may lack. tests/python/test_symbols.py
// reads the object files for that.
//
// Each of the headers below defines `lanes`, `Vector` and the same functions. KHA_VECTOR names
// another header: tests run the geometry of 16 lanes on processors without AVX-512.
#pragma once

#define KHA_INLINE [[gnu::always_inline]] static inline

#if defined(KHA_VECTOR)
#include KHA_VECTOR
#elif defined(__AVX512F__)
#include "kernels/cpu/simd/vector_avx512.h"
#elif defined(__AVX2__)
#include "kernels/cpu/simd/vector_avx2.h"
#else
#include "kernels/cpu/simd/vector_scalar.h"
#endif
