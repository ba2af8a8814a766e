// Exact integer dot products of one block (layout.h) with up to 4 rows of activations, in plain
// C++.
#pragma once
#include "isa/panel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

INLINE void add_products(I16& sum, const I16& w, int32_t x) {
  sum.low += w.low * x, sum.high += w.high * x;
}

// CENTRED: codes stand for q - 8.
template <int MR, bool CENTRED>
INLINE void int4_dots(const uint8_t* q, const Activations<1>* x, int64_t stride, I16 (&dot)[MR]) {
  for (int m = 0; m < MR; ++m) dot[m] = I16{};
  for (int k = 0; k < GROUP; ++k) {
    I16 w;
    for (int r = 0; r < 8; ++r) {
      const uint8_t* pair = q + (k / 8 * PANEL + r) * 4 + k % 4;
      const int shift = k / 4 % 2 * 4, centre = CENTRED ? 8 : 0;
      w.low[r] = (pair[0] >> shift & 15) - centre, w.high[r] = (pair[32] >> shift & 15) - centre;
    }
    for (int m = 0; m < MR; ++m) add_products(dot[m], w, x[m / TILE * stride].q[m % TILE][k]);
  }
}

// Of group G of GROUPS in the block.
template <int MR, int G, int GROUPS>
INLINE void int8_dots(const uint8_t* q, const Activations<GROUPS>* x, int64_t stride,
                      I16 (&dot)[MR]) {
  for (int m = 0; m < MR; ++m) dot[m] = I16{};
  for (int k = G * GROUP / GROUPS; k < (G + 1) * GROUP / GROUPS; ++k) {
    int32_t column[PANEL];
    for (int r = 0; r < PANEL; ++r) column[r] = int8_t(q[(k / 4 * PANEL + r) * 4 + k % 4]);
    I16 w;
    memcpy(&w, column, sizeof w);
    for (int m = 0; m < MR; ++m) add_products(dot[m], w, x[m / TILE * stride].q[m % TILE][k]);
  }
}

}  // namespace stoker::STOKER_ISA
