// V8 in plain C++: GCC's and Clang's vector types, which every target knows how to split.
#pragma once
#include "isa/half.h"

namespace stoker::STOKER_ISA {

typedef float V8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));

static inline V8 zero() { return V8{}; }
static inline V8 splat(float x) { return V8{x, x, x, x, x, x, x, x}; }
template <class T> static inline V8 load(const T* p) {
  V8 x;
  for (int i = 0; i < 8; ++i) x[i] = widen(p[i]);
  return x;
}
template <class T> static inline void store(T* p, V8 x) {
  for (int i = 0; i < 8; ++i) narrow(x[i], p[i]);
}
// 32 whole numbers in -128..127, in order.
static inline void store_codes(int8_t* q, const V8 (&x)[4]) {
  for (int i = 0; i < 32; ++i) q[i] = int8_t(int32_t(x[i / 8][i % 8]));
}
static inline V8 to_float(I8 x) { return __builtin_convertvector(x, V8); }
static inline V8 add(V8 a, V8 b) { return a + b; }
static inline V8 sub(V8 a, V8 b) { return a - b; }
static inline V8 mul(V8 a, V8 b) { return a * b; }
static inline V8 div(V8 a, V8 b) { return a / b; }
static inline V8 fma(V8 a, V8 b, V8 c) { return a * b + c; }  // rounds twice: -ffp-contract=off
static inline V8 max(V8 a, V8 b) { return a > b ? a : b; }
static inline V8 min(V8 a, V8 b) { return a < b ? a : b; }
static inline V8 magnitude(V8 x) { return (V8)((I8)x & 0x7fffffff); }
static inline V8 round_even(V8 x) {  // |x| < 2^22: the adder rounds to a whole number
  const V8 magic = splat(0x1.8p23f);
  return (x + magic) - magic;
}
static inline V8 power_of_two(V8 n) {  // 2^n for whole n in -126..127
  return (V8)((__builtin_convertvector(n, I8) + 127) << 23);
}
static inline V8 zero_where_less(V8 x, V8 a, V8 b) { return (V8)(~(a < b) & (I8)x); }
// x * 2^40 to the nearest whole number, ties to even, for x in 0..1: next to 2^12 a double has 40
// bits behind the point.
static inline void store_fixed_point(uint64_t* p, V8 x) {
  typedef double D8 __attribute__((vector_size(64)));
  typedef uint64_t U8 __attribute__((vector_size(64)));
  const D8 beside = D8{} + 0x1p12;
  const U8 whole = (U8)(__builtin_convertvector(x, D8) + beside) ^ (U8)beside;
  memcpy(p, &whole, sizeof whole);
}
// Sum and maximum of the eight, always in the same order.
static inline float sum(V8 x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
static inline float top(V8 x) {
  const auto most = [](float a, float b) { return a < b ? b : a; };
  const float a = most(most(x[0], x[4]), most(x[2], x[6]));
  return most(a, most(most(x[1], x[5]), most(x[3], x[7])));
}
// Into the first level, or only as far as the second.
static inline void prefetch(const void* p) { __builtin_prefetch(p); }
static inline void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace stoker::STOKER_ISA
