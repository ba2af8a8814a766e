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
// To nearest, ties to even; NaN stays NaN: as narrow() does.
static inline void store(BF16* p, V8 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i rounded = _mm256_blendv_epi8(_mm256_add_epi32(bits, up), quiet, is_nan);
  const __m256i halves = _mm256_srli_epi32(rounded, 16);
  const __m256i packed = _mm256_packus_epi32(halves, halves);
  _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}
// 32 whole numbers in -128..127, in order.
static inline void store_codes(int8_t* q, const V8 (&x)[4]) {
  const I8 a = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
  const I8 b = _mm256_packs_epi32(_mm256_cvtps_epi32(x[2]), _mm256_cvtps_epi32(x[3]));
  const I8 order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes what packing swaps
  _mm256_storeu_si256((I8*)q, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order));
}
static inline V8 to_float(I8 x) { return _mm256_cvtepi32_ps(x); }
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
// x * 2^40 to the nearest whole number, ties to even, for x in 0..1: next to 2^12 a double has 40
// bits behind the point.
static inline void store_fixed_point(uint64_t* p, V8 x) {
  const __m256d beside = _mm256_set1_pd(0x1p12);
  const __m256d low = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)), beside);
  const __m256d high = _mm256_add_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), beside);
  _mm256_storeu_si256((I8*)p, (I8)_mm256_xor_pd(low, beside));
  _mm256_storeu_si256((I8*)p + 1, (I8)_mm256_xor_pd(high, beside));
}
// Sum and maximum of the eight, in the order of simd_portable.h.
static inline float sum(V8 x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float top(V8 x) {
  const __m128 four = _mm_max_ps(_mm256_extractf128_ps(x, 1), _mm256_castps256_ps128(x));
  const __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
  return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(two), two));
}
// Into the first level, or only as far as the second.
static inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
static inline void prefetch_far(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }

}  // namespace stoker::STOKER_ISA
