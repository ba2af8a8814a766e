// Attention in float32 over pages of any number: queries against keys, weights against values.
//
// Up to ABREAST lanes (query heads and tokens that share a kv head) go side by side, so that a
// number that was read and widened serves all of them. Few lanes would wait for their own sums:
// then two pages of keys, or 32 channels of values, keep twice as many sums in flight. Neither
// changes the order in which one sum is made: channel by channel, and key by key.
//
// A row of scores is [16 floats], then as many weights in their place; a row of output is the
// head's channels, padded to eights.
#pragma once
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

// Fetch the line that lies `at` values behind p, once for each line.
template <class T> INLINE void fetch(const T* p, int64_t at) {
  if (at * int64_t(sizeof(T)) % 64 == 0) prefetch_far(p + at);
}

// out[r][c] += weight[r][t] * v[t][c] for the 8 * WIDTH channels from v on and t in low..high-1.
template <int R, int WIDTH, class T>
INLINE void add_values(const T* v, const T* next, int64_t D, int64_t low, int64_t high,
                       const float* weights, float* out, int64_t out_stride) {
  V8 sums[R][WIDTH];
  for (int r = 0; r < R; ++r)
    for (int w = 0; w < WIDTH; ++w) sums[r][w] = load(out + r * out_stride + w * 8);
  for (int64_t t = low; t < high; ++t) {
    prefetch_far(next + t * D);
#pragma GCC unroll 4
    for (int w = 0; w < WIDTH; ++w) {
      const V8 value = load(v + t * D + w * 8);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r)
        sums[r][w] = fma(value, splat(weights[r * PAGE + t]), sums[r][w]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int w = 0; w < WIDTH; ++w) store(out + r * out_stride + w * 8, sums[r][w]);
}

// The same for the n < 8 channels at the end of a head, of one lane. The row of `out` is padded.
template <class T>
void add_last_values(const T* v, int64_t D, int64_t n, int64_t low, int64_t high,
                     const float* weights, float* out) {
  V8 sum = load(out);
  for (int64_t t = low; t < high; ++t)
    sum = fma(load_part(v + t * D, n), splat(weights[t]), sum);
  store(out, sum);
}

template <class Number> struct Floats {
  using T = Number;
  static constexpr int SPAN = 4, ABREAST = 6;

  static int64_t query_floats(int64_t D) { return D; }
  static int64_t out_floats(int64_t D) { return (D + 7) / 8 * 8; }
  static int pages_abreast(int64_t lanes) { return lanes <= 3 ? 2 : 1; }

  static void query(const float* q, int64_t D, float scale, float* to) {
    for (int64_t d = 0; d < D; ++d) to[d] = q[d] * scale;
  }

  // scores[p][r][t] = sum over d of k[p][d][t] * q[r][d] for R lanes and PAGES pages of 16 keys.
  // `stride`: numbers from one page's scores to the next one's. next: pages to fetch meanwhile.
  template <int R, int PAGES>
  static void score(const T* const* k, const T* const* next, int64_t D, const float* q,
                    float* scores, int64_t stride) {
    V8 sums[PAGES][R][2];
    for (int p = 0; p < PAGES; ++p)
      for (int r = 0; r < R; ++r) sums[p][r][0] = sums[p][r][1] = zero();
    for (int64_t d = 0; d < D; ++d) {
#pragma GCC unroll 2
      for (int p = 0; p < PAGES; ++p) {
        fetch(next[p], d * PAGE);
        const V8 k0 = load(k[p] + d * PAGE), k1 = load(k[p] + d * PAGE + 8);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
          const V8 x = splat(q[r * D + d]);
          sums[p][r][0] = fma(k0, x, sums[p][r][0]);
          sums[p][r][1] = fma(k1, x, sums[p][r][1]);
        }
      }
    }
    for (int p = 0; p < PAGES; ++p)
      for (int r = 0; r < R; ++r)
        for (int half = 0; half < 2; ++half)
          store(scores + p * stride + r * PAGE + half * 8, sums[p][r][half]);
  }

  // One lane's scores, `stride` apart from page to page, to weights; returns the maximum.
  static float weigh(float* rows, float* end, int64_t stride, float& sum_of_weights) {
    V8 largest = splat(-__builtin_inff());
    for (float* row = rows; row < end; row += stride)
      largest = max(largest, max(load(row), load(row + 8)));
    const float maximum = top(largest);
    V8 total = zero();
    for (float* row = rows; row < end; row += stride) {
      const V8 w0 = exp(sub(load(row), splat(maximum)));
      const V8 w1 = exp(sub(load(row + 8), splat(maximum)));
      store(row, w0), store(row + 8, w1);
      total = STOKER_ISA::add(total, STOKER_ISA::add(w0, w1));
    }
    sum_of_weights = sum(total);
    return maximum;
  }

  // The values at low..high-1 of a page, all D channels, for R lanes.
  template <int R>
  static void add(const T* v, const T* next, int64_t D, int64_t low, int64_t high,
                  const float* weights, float* out, int64_t out_stride) {
    constexpr int WIDTH = R <= 3 ? 4 : 2;
    int64_t c = 0;
    for (; c + 8 * WIDTH <= D; c += 8 * WIDTH)
      add_values<R, WIDTH>(v + c, next + c, D, low, high, weights, out + c, out_stride);
    for (; c + 8 <= D; c += 8)
      add_values<R, 1>(v + c, next + c, D, low, high, weights, out + c, out_stride);
    if (c < D)
      for (int r = 0; r < R; ++r)
        add_last_values(v + c, D, D - c, low, high, weights + r * PAGE, out + r * out_stride + c);
  }

  static void finish(const float* out, float factor, int64_t D, float* to) {
    for (int64_t d = 0; d < D; ++d) to[d] = out[d] * factor;
  }
};

}  // namespace stoker::STOKER_ISA
