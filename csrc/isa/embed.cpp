// embed: single rows of a packed table (layout.h), as float32 times a scale.
// A row's numbers lie 16 apart in the panel, so this reads whole cache lines for one number each:
// the price of sharing one copy with `linear` (tied embeddings); T rows of K are few.
#include "isa/ops.h"
#include "isa/parallel.h"
#include "layout.h"

namespace stoker::STOKER_ISA {
namespace {

template <class T> void float_row(const Embed& a, int64_t id, float* out) {
  const T* panel = reinterpret_cast<const T*>(a.table.data) + id / PANEL * a.table.K * PANEL;
  for (int64_t k = 0; k < a.table.K; ++k) out[k] = widen(panel[k * PANEL + id % PANEL]) * a.scale;
}

// The code of column k (0..31) of row r (0..7) in a half's codes.
int code_at(const uint8_t* q, Format format, int r, int k) {
  if (format == Format::int8) return int8_t(q[k / 2 * 16 + 2 * r + k % 2]);
  const int pair = q[k / 8 * 32 + 4 * r + k % 4];
  return k % 8 < 4 ? pair & 15 : pair >> 4;
}

template <class S> void int_row(const Embed& a, int64_t id, float* out) {
  const WeightView& w = a.table;
  const int r = int(id % HALF), groups = GROUP / w.group;
  const int64_t size = half_bytes(w), codes = size - code_bytes(w.format);
  const uint8_t* half = w.data + id / PANEL * panel_bytes(w) + id % PANEL / HALF * size;
  for (int64_t b = 0; b < w.K / GROUP; ++b, half += 2 * size) {
    const S* scale = reinterpret_cast<const S*>(half) + r;
    const S* minimum = scale + groups * HALF;
    for (int k = 0; k < GROUP; ++k) {
      const int at = k / w.group * HALF;
      float value = widen(scale[at]) * float(code_at(half + codes, w.format, r, k));
      if (w.has_minimum) value += widen(minimum[at]);
      out[b * GROUP + k] = value * a.scale;
    }
  }
}

void row(const Embed& a, int64_t id, float* out) {
  switch (a.table.format) {
    case Format::f32: return float_row<float>(a, id, out);
    case Format::f16: return float_row<F16>(a, id, out);
    case Format::bf16: return float_row<BF16>(a, id, out);
    default: a.table.wide_scales ? int_row<float>(a, id, out) : int_row<F16>(a, id, out);
  }
}

}  // namespace

void embed(Team& team, const Embed& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) row(a, a.ids[t], a.out + t * a.table.K);
  };
  parallel(team, a.T, chunk_of(team, a.T, a.table.K * 8), body);
}

}  // namespace stoker::STOKER_ISA
