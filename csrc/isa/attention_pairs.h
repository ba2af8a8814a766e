// Attention over bf16 pages in products of bf16 pairs, summed in float32 (AVX-512 BF16).
//
// Two neighbours of a sum are zipped, so that one instruction adds both products of 16 sums:
//
//   K [head_dim][16 keys]:  channels 2 i and 2 i + 1 of 16 keys, times that pair of a query
//   V [16 keys][head_dim]:  keys 2 j and 2 j + 1 of 32 channels, times that pair of weights
//
// Queries are rounded to bf16, and so are weights, whose sum is that of the rounded ones. A sum
// takes pair after pair, and weights are summed page by page in eight sums: nothing depends on
// which lanes and pages go together.
//
// A row of scores is [16 floats], then [16 bf16] weights at its start; a row of output is in blocks
// of 32 channels in the order that zip_rows leaves.
//
// Cost per lane and page: head_dim products of registers, about 11 instructions for 16 weights. Eight
// lanes share what was zipped: two pages of keys or 32 channels of values keep 16 sums in flight,
// which covers the instruction's latency of 6 cycles.
#pragma once
#include "isa/pairs_avx512.h"

namespace stoker::STOKER_ISA {

// e^(x - maximum) within 8e-5, 0 for x = -inf: the result is rounded to bf16 (2e-3) anyway.
// 2^f on 0..1 as a polynomial of degree 3, times 2^floor.
INLINE V16 weight_of(V16 x, V16 scaled_maximum) {
  const V16 log2 = _mm512_fmsub_ps(x, _mm512_set1_ps(1.44269504f), scaled_maximum);
  const V16 f = _mm512_reduce_ps(log2, _MM_FROUND_TO_NEG_INF);
  V16 p = splat16(0.07802406f);
  p = _mm512_fmadd_ps(p, f, splat16(0.22606678f));
  p = _mm512_fmadd_ps(p, f, splat16(0.69583424f));
  p = _mm512_fmadd_ps(p, f, splat16(0.99992509f));
  return _mm512_scalef_ps(p, log2);
}

struct PairsOfBF16 {
  using T = BF16;
  static constexpr int SPAN = 16, ABREAST = 8;

  static int64_t query_floats(int64_t D) { return D / 2; }
  static int64_t out_floats(int64_t D) { return (D + 31) / 32 * 32; }
  static int pages_abreast(int64_t) { return 2; }

  static void query(const float* q, int64_t D, float scale, float* to) {
    BF16* rounded = reinterpret_cast<BF16*>(to);
    for (int64_t d = 0; d < D; d += 16)
      narrow_scaled(q + d, scale, least(D - d, int64_t(16)), rounded + d);
  }

  template <int R, int PAGES>
  static void score(const T* const* k, const T* const* next, int64_t D, const float* q,
                    float* scores, int64_t stride) {
    V16 sums[PAGES][R];
    for (int p = 0; p < PAGES; ++p)
      for (int r = 0; r < R; ++r) sums[p][r] = zero16();
    for (int64_t pair = 0; pair < D / 2; ++pair) {
#pragma GCC unroll 2
      for (int p = 0; p < PAGES; ++p) {
        prefetch_far(next[p] + pair * 2 * PAGE);
        const Pairs keys = zip_rows(k[p] + pair * 2 * PAGE);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
          sums[p][r] = dot(keys, splat_pair(q + r * (D / 2) + pair), sums[p][r]);
      }
    }
    for (int p = 0; p < PAGES; ++p)
      for (int r = 0; r < R; ++r) store(scores + p * stride + r * PAGE, sums[p][r]);
  }

  // See Floats.
  static float weigh(float* rows, float* end, int64_t stride, float& sum_of_weights) {
    V16 largest = splat16(-__builtin_inff());
    for (float* row = rows; row < end; row += stride) largest = max(largest, load16(row));
    const float maximum = top(largest);
    const V16 scaled = splat16(maximum * 1.44269504f);
    V8 total = zero();
    for (float* row = rows; row < end; row += stride) {
      BF16* const weights = reinterpret_cast<BF16*>(row);
      store(weights, weight_of(load16(row), scaled));
      total = add_pairs(weights, total);
    }
    sum_of_weights = sum(total);
    return maximum;
  }

  // The values at low..high-1 of a page, all D channels, for R lanes. What lies outside counts as
  // 0, which the other one of its pair needs: it may be NaN.
  template <int R>
  static void add(const T* v, const T* next, int64_t D, int64_t low, int64_t high,
                  const float* weights, float* out, int64_t out_stride) {
    static constexpr T nothing[32] = {};
    for (int64_t c = 0; c < D; c += 32) {
      V16 sums[R][2];
      for (int r = 0; r < R; ++r)
        for (int half = 0; half < 2; ++half)
          sums[r][half] = load16(out + r * out_stride + c + half * 16);
      for (int64_t t = low & ~1; t < high; t += 2) {
        prefetch_far(next + t * D + c), prefetch_far(next + t * D + D + c);
        const T* const even = t >= low ? v + t * D + c : nothing;
        const T* const odd = t + 1 < high ? v + t * D + D + c : nothing;
        Pairs values[2];
        zip_rows(even, odd, least(D - c, int64_t(32)), values);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const Pairs weight = splat_pair(weights + r * PAGE + t / 2);
          sums[r][0] = dot(values[0], weight, sums[r][0]);
          sums[r][1] = dot(values[1], weight, sums[r][1]);
        }
      }
      for (int r = 0; r < R; ++r)
        for (int half = 0; half < 2; ++half)
          store(out + r * out_stride + c + half * 16, sums[r][half]);
    }
  }

  static void finish(const float* out, float factor, int64_t D, float* to) {
    for (int64_t c = 0; c < D; c += 32)
      unzip(out + c, factor, least(D - c, int64_t(32)), to + c);
  }
};

}  // namespace stoker::STOKER_ISA
