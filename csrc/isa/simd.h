// Eight floats at a time, in the words of the instruction set that this copy is compiled for.
//
// Everything in isa/ lies in namespace stoker::STOKER_ISA, and uses no function of the standard
// library that is not a builtin: a library template compiled here with AVX2 could otherwise be the
// copy that the linker keeps for the portable path too.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels.h"

#if defined(STOKER_AVX2)
#include "isa/simd_avx2.h"
#else
#include "isa/simd_portable.h"
#endif

#define INLINE static inline __attribute__((always_inline))

namespace stoker::STOKER_ISA {

template <class T> INLINE T least(T a, T b) { return b < a ? b : a; }
template <class T> INLINE T most(T a, T b) { return a < b ? b : a; }

INLINE float f32_of_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
INLINE uint32_t bits_of_f32(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

// n < 8 values at p, zeros behind them.
template <class T> INLINE V8 load_part(const T* p, int64_t n) {
  T full[8] = {};
  memcpy(full, p, size_t(n) * sizeof(T));
  return load(full);
}
template <class T> INLINE void store_part(T* p, V8 x, int64_t n) {
  T full[8];
  store(full, x);
  memcpy(p, full, size_t(n) * sizeof(T));
}

// e^x within 2 ulp on [-87, 88]; 0 below, so that -inf is a neutral weight; e^88 above.
// Cody-Waite reduction to |f| <= ln(2)/2 and the Taylor polynomial of degree 7.
INLINE V8 exp(V8 x) {
  const V8 clamped = min(max(x, splat(-87.0f)), splat(88.0f));
  const V8 n = round_even(mul(clamped, splat(1.44269504f)));
  V8 f = fma(n, splat(-0.693359375f), clamped);
  f = fma(n, splat(2.12194440e-4f), f);
  V8 p = splat(1.0f / 5040);
  p = fma(p, f, splat(1.0f / 720));
  p = fma(p, f, splat(1.0f / 120));
  p = fma(p, f, splat(1.0f / 24));
  p = fma(p, f, splat(1.0f / 6));
  p = fma(p, f, splat(0.5f));
  p = fma(p, f, splat(1.0f));
  p = fma(p, f, splat(1.0f));
  return zero_where_less(mul(p, power_of_two(n)), x, splat(-87.0f));
}

}  // namespace stoker::STOKER_ISA
