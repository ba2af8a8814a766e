// V16: sixteen floats, an output of each row of a panel; I16: as many int32. One register of AVX-512
// where there is one, else two vectors of eight.
#pragma once
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

#if defined(STOKER_VNNI)

inline constexpr int MOST_ROWS = 12;  // in a tile: 12 sums and 12 dots, of 32 registers

using V16 = __m512;
using I16 = __m512i;

INLINE V16 splat16(float x) { return _mm512_set1_ps(x); }
INLINE V16 load16(const float* p) { return _mm512_loadu_ps(p); }
INLINE V16 load16(const F16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
INLINE V16 load16(const BF16* p) {
  const I16 wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE void store(float* p, V16 x) { _mm512_storeu_ps(p, x); }
INLINE V16 add(V16 a, V16 b) { return _mm512_add_ps(a, b); }
INLINE V16 mul(V16 a, V16 b) { return _mm512_mul_ps(a, b); }
INLINE V16 fma(V16 a, V16 b, V16 c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
INLINE V16 to_float(I16 x) { return __builtin_convertvector((__v16si)x, V16); }

#else

inline constexpr int MOST_ROWS = 4;  // in a tile: the sums of eight outputs fill 8 of 16 registers

struct V16 { V8 low, high; };
struct I16 { I8 low, high; };

INLINE V16 splat16(float x) { return {splat(x), splat(x)}; }
template <class T> INLINE V16 load16(const T* p) { return {load(p), load(p + 8)}; }
INLINE void store(float* p, V16 x) { store(p, x.low), store(p + 8, x.high); }
INLINE V16 add(V16 a, V16 b) { return {add(a.low, b.low), add(a.high, b.high)}; }
INLINE V16 mul(V16 a, V16 b) { return {mul(a.low, b.low), mul(a.high, b.high)}; }
INLINE V16 fma(V16 a, V16 b, V16 c) {
  return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
INLINE V16 to_float(I16 x) { return {to_float(x.low), to_float(x.high)}; }

#endif

}  // namespace stoker::STOKER_ISA
