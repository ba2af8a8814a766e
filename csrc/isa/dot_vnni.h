// Exact integer dot products of one block (layout.h) with up to 12 rows of activations, in AVX-512
// VNNI: one instruction multiplies four columns of sixteen weight rows by four broadcast
// activations and adds. Unpacking a block's codes costs 16 operations (int4) or 16 loads and
// exclusive ors (int8) for all rows of the tile; each row then costs 8 products.
#pragma once
#include "isa/panel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

INLINE I16 load64(const uint8_t* p) { return _mm512_loadu_si512(p); }

// sum += four unsigned bytes of each lane of w times the four signed bytes at x. Written out, as
// GCC 12 would broadcast with an instruction of its own, and would move sums to memory.
INLINE void dot4(I16& sum, I16 w, const int8_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const int8_t(*)[4])x));
}

// CENTRED: codes stand for q - 8.
template <int MR, bool CENTRED>
INLINE void int4_dots(const uint8_t* q, const Activations<1>* x, int64_t stride, I16 (&dot)[MR]) {
  const I16 nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 12
  for (int m = 0; m < MR; ++m)
    dot[m] = CENTRED ? _mm512_set1_epi32(x[m / TILE * stride].minus_8_sum[m % TILE])
                     : _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    I16 w = load64(q + j / 2 * 64);
    if (j % 2) w = _mm512_srli_epi16(w, 4);
    w = _mm512_and_si512(w, nibble);
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m) dot4(dot[m], w, x[m / TILE * stride].q[m % TILE] + 4 * j);
  }
}

// Of group G of GROUPS in the block.
template <int MR, int G, int GROUPS>
INLINE void int8_dots(const uint8_t* q, const Activations<GROUPS>* x, int64_t stride,
                      I16 (&dot)[MR]) {
  const I16 sign = _mm512_set1_epi8(-128);
#pragma GCC unroll 12
  for (int m = 0; m < MR; ++m)
    dot[m] = _mm512_set1_epi32(x[m / TILE * stride].minus_128_sum[G][m % TILE]);
#pragma GCC unroll 8
  for (int j = G * 8 / GROUPS; j < (G + 1) * 8 / GROUPS; ++j) {
    const I16 w = _mm512_xor_si512(load64(q + j * 64), sign);
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m) dot4(dot[m], w, x[m / TILE * stride].q[m % TILE] + 4 * j);
  }
}

}  // namespace stoker::STOKER_ISA
