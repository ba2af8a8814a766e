// Pairs of bf16 in AVX-512 BF16: sixteen floats, each of which takes two products at a time.
#pragma once
#include <immintrin.h>

#include "isa/simd.h"

namespace stoker::STOKER_ISA {

using V16 = __m512;
using Pairs = __m512i;  // 32 bf16, of which 2 i and 2 i + 1 belong to float i

INLINE V16 zero16() { return _mm512_setzero_ps(); }
INLINE V16 splat16(float x) { return _mm512_set1_ps(x); }
INLINE V16 load16(const float* p) { return _mm512_loadu_ps(p); }
INLINE void store(float* p, V16 x) { _mm512_storeu_ps(p, x); }
INLINE V16 max(V16 a, V16 b) { return _mm512_max_ps(a, b); }
// Rounded to nearest, ties to even; denormal numbers become 0.
INLINE void store(BF16* p, V16 x) {
  _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(x));
}
// c + a.odd * b.odd + a.even * b.even. Denormal numbers count as 0.
INLINE V16 dot(Pairs a, Pairs b, V16 c) {
  return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}
// The first n <= 16 numbers at p, times `factor`, rounded as above.
INLINE void narrow_scaled(const float* p, float factor, int64_t n, BF16* out) {
  const __mmask16 mask = __mmask16(0xffffu >> (16 - n));
  const V16 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, p), splat16(factor));
  _mm256_mask_storeu_epi16(out, mask, (__m256i)_mm512_cvtneps_pbh(x));
}
// total + the sums of the pairs among 16 numbers.
INLINE V8 add_pairs(const BF16* p, V8 total) {
  const __m256i ones = _mm256_set1_epi16(0x3f80);
  return _mm256_dpbf16_ps(total, (__m256bh)_mm256_loadu_si256((const __m256i*)p), (__m256bh)ones);
}
INLINE float top(V16 x) {
  return top(max(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
INLINE Pairs splat_pair(const void* p) {
  int32_t pair;
  memcpy(&pair, p, 4);
  return _mm512_set1_epi32(pair);
}
// Two rows of 16 that follow each other: float i gets number i of both.
INLINE Pairs zip_rows(const BF16* p) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, _mm512_loadu_si512(p));
}
// n <= 32 numbers of two rows each, zeros behind them. Unpacking works on quarters of a register,
// so the floats stand for numbers 0-3 8-11 16-19 24-27 and 4-7 12-15 20-23 28-31: see unzip.
INLINE void zip_rows(const BF16* a, const BF16* b, int64_t n, Pairs (&zipped)[2]) {
  const __mmask32 mask = __mmask32(0xffffffffu >> (32 - n));
  const __m512i x = _mm512_maskz_loadu_epi16(mask, a), y = _mm512_maskz_loadu_epi16(mask, b);
  zipped[0] = _mm512_unpacklo_epi16(x, y), zipped[1] = _mm512_unpackhi_epi16(x, y);
}
// Store the first n <= 32 of the numbers that stand in p as zip_rows leaves them, times `factor`.
INLINE void unzip(const float* p, float factor, int64_t n, float* out) {
  const __m512i first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
  const V16 x = load16(p), y = load16(p + 16), by = _mm512_set1_ps(factor);
  const V16 low = _mm512_permutex2var_ps(x, first, y);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  const V16 high = _mm512_permutex2var_ps(x, second, y);
  const uint32_t mask = 0xffffffffu >> (32 - n);
  _mm512_mask_storeu_ps(out, __mmask16(mask), _mm512_mul_ps(low, by));
  _mm512_mask_storeu_ps(out + 16, __mmask16(mask >> 16), _mm512_mul_ps(high, by));
}

}  // namespace stoker::STOKER_ISA
