// prepare: rows as linears read them. A row is made (taken as it is, normalised, or gated) in
// float32 and rounded to each code that a linear behind it asks for, while it is in cache.
//
//   x [M, K] ---- rms_norm or glu ----> row [K] ---+--> float32 [M, K]
//                                                  +--> int8 codes, scales and sums (quantize.h)
//
// Cost per row: one read of each input, one write of each output; bound by memory for many rows.
#include "isa/ops.h"
#include "isa/parallel.h"
#include "isa/quantize.h"
#include "isa/rows.h"

namespace stoker::STOKER_ISA {
namespace {

// The float32 row; `out` is where it may be made.
const float* make_row(const Prepare& a, int64_t row, float* out) {
  const float* x = a.x + row * a.K;
  switch (a.source) {
    case Source::rows: return x;
    case Source::rms_norm: norm_row(x, a.weight, a.K, a.eps, out); break;
    case Source::silu_glu: glu_range<false>(x, a.y + row * a.K, a.K, out); break;
    case Source::gelu_glu: glu_range<true>(x, a.y + row * a.K, a.K, out); break;
  }
  return out;
}

template <int SUMS> void round_row(const Prepare& a, Code code, const float* x, int64_t row) {
  if (void* operand = a.out.at[int(code)])
    quantize_row(x, static_cast<Activations<SUMS>*>(operand), row, a.K / GROUP);
}

}  // namespace

void prepare(Team& team, const Prepare& a) {
  auto body = [&](int64_t begin, int64_t end, int worker) {
    float* result = static_cast<float*>(a.out.at[int(Code::f32)]);
    float* scratch = result ? nullptr : static_cast<float*>(team.scratch(worker, a.K * 4));
    for (int64_t row = begin; row < end; ++row) {
      const float* x = make_row(a, row, result ? result + row * a.K : scratch);
      round_row<1>(a, Code::i8, x, row);
      round_row<2>(a, Code::i8_halves, x, row);
    }
  };
  parallel(team, a.M, chunk_of(team, a.M, a.K * 8), body);
}

}  // namespace stoker::STOKER_ISA
