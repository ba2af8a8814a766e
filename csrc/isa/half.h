// 16-bit floats as storage types, converted one at a time in plain integer arithmetic.
#pragma once
#include <cstdint>
#include <cstring>

namespace stoker::STOKER_ISA {

struct F16 { uint16_t bits; };   // IEEE binary16
struct BF16 { uint16_t bits; };  // the upper half of a binary32

static inline float widen(float x) { return x; }

static inline float widen(BF16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float y;
  memcpy(&y, &bits, 4);
  return y;
}

static inline float widen(F16 x) {
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  uint32_t bits;
  float y;
  if (rest >= 0x7c00) {  // infinity, NaN
    bits = sign | 0x7f800000 | (rest & 0x3ff) << 13;
  } else if (rest >= 0x400) {
    bits = sign | ((rest << 13) + ((127 - 15) << 23));
  } else {  // subnormal: rest * 2^-24 is exact in binary32
    y = float(rest) * 0x1p-24f;
    memcpy(&bits, &y, 4);
    bits |= sign;
  }
  memcpy(&y, &bits, 4);
  return y;
}

static inline void narrow(float x, float& y) { y = x; }

// To nearest, ties to even; NaN stays NaN.
static inline void narrow(float x, BF16& y) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  y.bits = uint16_t(is_nan ? bits >> 16 | 0x40 : rounded);
}

static inline void narrow(float x, F16& y) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) {
    y.bits = uint16_t(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  } else if (bits >= 0x477ff000) {  // rounds to 65536 or more
    y.bits = uint16_t(sign | 0x7c00);
  } else if (bits < 0x38800000) {  // below 2^-14: let the float adder round to a multiple of 2^-24
    float magnitude;
    memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;  // ulp of [0.5, 1) is 2^-24
    memcpy(&bits, &magnitude, 4);
    y.bits = uint16_t(sign | (bits - 0x3f000000));
  } else {
    bits += 0xfff + (bits >> 13 & 1);
    y.bits = uint16_t(sign | ((bits >> 13) - ((127 - 15) << 10)));
  }
}

}  // namespace stoker::STOKER_ISA
