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

// The number that a scale multiplies, of column k (0..31) of row r (0..15) in a block's codes.
int code_at(const uint8_t* q, const WeightView& w, int r, int k) {
  if (w.format == Format::int8) return int8_t(q[(k / 4 * PANEL + r) * 4 + k % 4]);
  const int pair = q[(k / 8 * PANEL + r) * 4 + k % 4];
  const int code = k % 8 < 4 ? pair & 15 : pair >> 4;
  return w.has_minimum ? code : code - 8;
}

template <class S> void int_row(const Embed& a, int64_t id, float* out) {
  const WeightView& w = a.table;
  const int r = int(id % PANEL), groups = GROUP / w.group;
  const int64_t size = block_bytes(w), codes = size - code_bytes(w.format);
  const uint8_t* block = w.data + id / PANEL * panel_bytes(w);
  for (int64_t b = 0; b < w.K / GROUP; ++b, block += size) {
    const S* scale = reinterpret_cast<const S*>(block) + r;
    const S* minimum = scale + groups * PANEL;
    for (int k = 0; k < GROUP; ++k) {
      const int at = k / w.group * PANEL;
      float value = widen(scale[at]) * float(code_at(block + codes, w, r, k));
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
