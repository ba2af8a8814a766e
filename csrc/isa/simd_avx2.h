// V8 in AVX2, FMA and F16C.
#pragma once
#include <immintrin.h>

#include "isa/half.h"

namespace stoker::STOKER_ISA {

using V8 = __m256;
using I8 = __m256i;  // eight int32

static inline V8 zero() { return _mm256_setzero_ps(); }
static inline V8 splat(float x) { return _mm256_set1_ps(x); }
static inline V8 load(const float* p) { return _mm256_loadu_ps(p); }
static inline V8 load(const F16* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
static inline V8 load(const BF16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline void store(float* p, V8 x) { _mm256_storeu_ps(p, x); }
static inline void store(F16* p, V8 x) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store(BF16* p, V8 x) {
  float v[8];
  store(v, x);
  for (int i = 0; i < 8; ++i) narrow(v[i], p[i]);
}
static inline V8 add(V8 a, V8 b) { return _mm256_add_ps(a, b); }
static inline V8 sub(V8 a, V8 b) { return _mm256_sub_ps(a, b); }
static inline V8 mul(V8 a, V8 b) { return _mm256_mul_ps(a, b); }
static inline V8 div(V8 a, V8 b) { return _mm256_div_ps(a, b); }
static inline V8 fma(V8 a, V8 b, V8 c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
static inline V8 max(V8 a, V8 b) { return _mm256_max_ps(a, b); }
static inline V8 min(V8 a, V8 b) { return _mm256_min_ps(a, b); }
static inline V8 magnitude(V8 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
static inline V8 round_even(V8 x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline V8 power_of_two(V8 n) {  // 2^n for whole n in -126..127
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
static inline V8 zero_where_less(V8 x, V8 a, V8 b) {  // a < b ? 0 : x
  return _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), x);
}
static inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace stoker::STOKER_ISA
