// Exact integer dot products of one block (layout.h) with up to 4 rows of activations, in plain
// C++.
#pragma once
#include "isa/simd.h"
#include "layout.h"

namespace stoker::STOKER_ISA {

INLINE V8 to_float(I8 x) { return __builtin_convertvector(x, V8); }

template <int MR>
INLINE void int4_dots(const uint8_t* q0, const uint8_t* q1, const int8_t* x, I8 (&dot)[MR][2]) {
  for (int m = 0; m < MR; ++m) dot[m][0] = dot[m][1] = I8{};
  for (int half = 0; half < 2; ++half) {
    const uint8_t* q = half ? q1 : q0;
    for (int j = 0; j < 4; ++j) {
      for (int t = 0; t < 4; ++t) {
        I8 low, high;
        for (int r = 0; r < HALF; ++r) {
          const int code = q[32 * j + 4 * r + t];
          low[r] = code & 15, high[r] = code >> 4;
        }
        for (int m = 0; m < MR; ++m) {
          const int8_t* piece = x + m * GROUP + 8 * j + t;
          dot[m][half] += low * int32_t(piece[0]) + high * int32_t(piece[4]);
        }
      }
    }
  }
}

template <int MR, int FROM, int TO>
INLINE void int8_dots(const uint8_t* q0, const uint8_t* q1, const int16_t* x, I8 (&dot)[MR][2]) {
  for (int m = 0; m < MR; ++m) dot[m][0] = dot[m][1] = I8{};
  for (int half = 0; half < 2; ++half) {
    const uint8_t* q = half ? q1 : q0;
    for (int k = 2 * FROM; k < 2 * TO; ++k) {
      I8 w;
      for (int r = 0; r < HALF; ++r) w[r] = int8_t(q[16 * (k / 2) + 2 * r + k % 2]);
      for (int m = 0; m < MR; ++m) dot[m][half] += w * int32_t(x[m * GROUP + k]);
    }
  }
}

}  // namespace stoker::STOKER_ISA
