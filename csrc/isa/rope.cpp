// rope_and_store: rotate q and k by their positions, write k and v into their pages. Where the
// model normalises heads, that comes first and on the way.
//
// Half-split pairing: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), x1 the first half of a head.
// cos_sin holds a row per position: head_dim / 2 cosines, then as many sines. K goes into its page
// transposed ([head_dim][16 tokens]), V as it is ([16 tokens][head_dim]).
// Cost: one read of q, k, v, one write of q and of the KV of T tokens.
#include "isa/ops.h"
#include "isa/parallel.h"
#include "isa/rows.h"

namespace stoker::STOKER_ISA {
namespace {

void rotate(const float* x, const float* cos, const float* sin, int64_t half, float* out) {
  int64_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const V8 x1 = load(x + i), x2 = load(x + i + half), c = load(cos + i), s = load(sin + i);
    store(out + i, sub(mul(x1, c), mul(x2, s)));
    store(out + i + half, add(mul(x2, c), mul(x1, s)));
  }
  for (; i < half; ++i) {
    const float x1 = x[i], x2 = x[i + half];
    out[i] = x1 * cos[i] - x2 * sin[i];
    out[i + half] = x2 * cos[i] + x1 * sin[i];
  }
}

// A head as it is to be rotated: itself, or normalised into `room`.
const float* head(const float* x, const float* norm, float eps, int64_t D, float* room) {
  if (!norm) return x;
  norm_row(x, norm, D, eps, room);
  return room;
}

template <class T> void narrow_row(const float* x, int64_t n, T* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) store(out + i, load(x + i));
  if (i < n) store_part(out + i, load_part(x + i, n - i), n - i);
}

template <class T> void store_token(const Rope& a, int64_t t, const float* cos, float* turned) {
  const int64_t D = a.kv.head_dim, position = a.rows.positions[t], slot = position % PAGE;
  const int64_t page =
      a.rows.page_table[a.rows.row_seq[t] * a.rows.max_pages + position / PAGE];
  T* k = reinterpret_cast<T*>(a.kv.k) + page * a.kv.k_stride;
  T* v = reinterpret_cast<T*>(a.kv.v) + page * a.kv.v_stride;
  for (int64_t h = 0; h < a.kv.kv_heads; ++h, k += D * PAGE, v += PAGE * D) {
    const int64_t from = (t * a.kv.kv_heads + h) * D;
    const float* key = head(a.k + from, a.k_norm, a.k_eps, D, turned + D);
    rotate(key, cos, cos + D / 2, D / 2, turned);
    T* const narrowed = reinterpret_cast<T*>(turned + D);
    narrow_row(turned, D, narrowed);
    for (int64_t d = 0; d < D; ++d) k[d * PAGE + slot] = narrowed[d];
    narrow_row(a.v + from, D, v + slot * D);
  }
}

template <class T> void run(Team& team, const Rope& a) {
  const int64_t D = a.kv.head_dim;
  auto body = [&](int64_t begin, int64_t end, int worker) {
    float* turned = static_cast<float*>(team.scratch(worker, 2 * D * 4));
    for (int64_t t = begin; t < end; ++t) {
      const float* cos = a.cos_sin + a.rows.positions[t] * D;
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t at = (t * a.heads + h) * D;
        const float* query = head(a.q + at, a.q_norm, a.q_eps, D, turned + D);
        rotate(query, cos, cos + D / 2, D / 2, a.q_out + at);
      }
      store_token<T>(a, t, cos, turned);
    }
  };
  parallel(team, a.rows.T, chunk_of(team, a.rows.T, (a.heads + 4 * a.kv.kv_heads) * D * 4), body);
}

}  // namespace

void rope_and_store(Team& team, const Rope& a) {
  switch (a.kv.number) {
    case Number::f32: return run<float>(team, a);
    case Number::f16: return run<F16>(team, a);
    case Number::bf16: return run<BF16>(team, a);
  }
}

}  // namespace stoker::STOKER_ISA
