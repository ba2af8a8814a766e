// Exact integer dot products of one block (layout.h) with up to 4 rows of activations, in AVX2, and
// where there is VNNI with its sums of four and two products. Both give the same integers.
#pragma once
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

INLINE V8 to_float(I8 x) { return _mm256_cvtepi32_ps(x); }

// Forces the sum into a register here: GCC otherwise computes all products of a block, spills them
// and adds them at the end, which takes half as long again.
INLINE void settle(__m256i& x) { asm("" : "+v"(x)); }

INLINE __m256i broadcast4(const void* p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}
INLINE __m256i load32(const uint8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
INLINE __m256i widen16(const uint8_t* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p));
}

#if defined(STOKER_VNNI)

// sum += four products of unsigned and signed bytes; of two pairs of int16.
INLINE __m256i dot4(__m256i sum, __m256i w, __m256i x) { return _mm256_dpbusd_epi32(sum, w, x); }
INLINE __m256i dot2(__m256i sum, __m256i w, __m256i x) { return _mm256_dpwssd_epi32(sum, w, x); }
INLINE __m256i widen(__m256i sum) { return sum; }

#else

// Sixteen bit sums: sixteen products of 0..15 and -127..127 fit, and are widened at the end.
INLINE __m256i dot4(__m256i sum, __m256i w, __m256i x) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
}
INLINE __m256i dot2(__m256i sum, __m256i w, __m256i x) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
}
INLINE __m256i widen(__m256i sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }

#endif

template <int MR>
INLINE void int4_dots(const uint8_t* q0, const uint8_t* q1, const int8_t* x, I8 (&dot)[MR][2]) {
  const __m256i nibble = _mm256_set1_epi8(15);
  for (int m = 0; m < MR; ++m) dot[m][0] = dot[m][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    __m256i w0 = load32(q0 + j / 2 * 32), w1 = load32(q1 + j / 2 * 32);
    if (j % 2) w0 = _mm256_srli_epi16(w0, 4), w1 = _mm256_srli_epi16(w1, 4);
    w0 = _mm256_and_si256(w0, nibble), w1 = _mm256_and_si256(w1, nibble);
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m) {
      const __m256i piece = broadcast4(x + m * GROUP + 4 * j);
      dot[m][0] = dot4(dot[m][0], w0, piece);
      dot[m][1] = dot4(dot[m][1], w1, piece);
      settle(dot[m][0]), settle(dot[m][1]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MR; ++m)
    for (int h = 0; h < 2; ++h) dot[m][h] = widen(dot[m][h]);
}

// int8: steps FROM..TO of two columns; int16 products are added in pairs to int32, nothing
// saturates.
template <int MR, int FROM, int TO>
INLINE void int8_dots(const uint8_t* q0, const uint8_t* q1, const int16_t* x, I8 (&dot)[MR][2]) {
  for (int m = 0; m < MR; ++m) dot[m][0] = dot[m][1] = _mm256_setzero_si256();
#pragma GCC unroll 16
  for (int j = FROM; j < TO; ++j) {
    const __m256i w0 = widen16(q0 + 16 * j), w1 = widen16(q1 + 16 * j);
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m) {
      const __m256i piece = broadcast4(x + m * GROUP + 2 * j);
      dot[m][0] = dot2(dot[m][0], w0, piece);
      dot[m][1] = dot2(dot[m][1], w1, piece);
      settle(dot[m][0]), settle(dot[m][1]);
    }
  }
}

}  // namespace stoker::STOKER_ISA
