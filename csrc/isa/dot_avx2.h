// Exact integer dot products of one block (layout.h) with up to 4 rows of activations, in AVX2: an
// instruction multiplies 32 pairs of unsigned and signed bytes and adds neighbours in 16 bits, and
// nothing may pass 32767.
#pragma once
#include "isa/panel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

// Forces the sum into a register here: GCC otherwise computes all products of a block, spills them
// and adds them at the end, which takes half as long again.
INLINE void settle(__m256i& x) { asm("" : "+v"(x)); }

INLINE __m256i broadcast4(const int8_t* p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}
INLINE __m256i load32(const uint8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
INLINE __m256i add_pairs(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }

// CENTRED: codes stand for q - 8. Sixteen products of 0..15 and -127..127 fit 16 bits, so sums are
// widened once a block.
template <int MR, bool CENTRED>
INLINE void int4_dots(const uint8_t* q, const Activations<1>* x, int64_t stride, I16 (&dot)[MR]) {
  const __m256i nibble = _mm256_set1_epi8(15);
  for (int m = 0; m < MR; ++m) dot[m].low = dot[m].high = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    __m256i w0 = load32(q + j / 2 * 64), w1 = load32(q + j / 2 * 64 + 32);
    if (j % 2) w0 = _mm256_srli_epi16(w0, 4), w1 = _mm256_srli_epi16(w1, 4);
    w0 = _mm256_and_si256(w0, nibble), w1 = _mm256_and_si256(w1, nibble);
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m) {
      const __m256i piece = broadcast4(x[m / TILE * stride].q[m % TILE] + 4 * j);
      dot[m].low = _mm256_add_epi16(dot[m].low, _mm256_maddubs_epi16(w0, piece));
      dot[m].high = _mm256_add_epi16(dot[m].high, _mm256_maddubs_epi16(w1, piece));
      settle(dot[m].low), settle(dot[m].high);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MR; ++m) {
    dot[m].low = add_pairs(dot[m].low), dot[m].high = add_pairs(dot[m].high);
    if (!CENTRED) continue;
    const __m256i offset = _mm256_set1_epi32(x[m / TILE * stride].minus_8_sum[m % TILE]);
    dot[m].low = _mm256_add_epi32(dot[m].low, offset);
    dot[m].high = _mm256_add_epi32(dot[m].high, offset);
  }
}

// sum += w * x over four columns, as |w| times x with the sign of w: a pair is at most 2 * 128 * 127.
INLINE void add_signed(__m256i& sum, __m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  sum = _mm256_add_epi32(sum, add_pairs(pairs));
  settle(sum);
}

// Of group G of GROUPS in the block.
template <int MR, int G, int GROUPS>
INLINE void int8_dots(const uint8_t* q, const Activations<GROUPS>* x, int64_t stride,
                      I16 (&dot)[MR]) {
  for (int m = 0; m < MR; ++m) dot[m].low = dot[m].high = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int j = G * 8 / GROUPS; j < (G + 1) * 8 / GROUPS; ++j) {
    const __m256i w0 = load32(q + j * 64), w1 = load32(q + j * 64 + 32);
#pragma GCC unroll 4
    for (int m = 0; m < MR; ++m) {
      const __m256i piece = broadcast4(x[m / TILE * stride].q[m % TILE] + 4 * j);
      add_signed(dot[m].low, w0, piece);
      add_signed(dot[m].high, w1, piece);
    }
  }
}

}  // namespace stoker::STOKER_ISA
