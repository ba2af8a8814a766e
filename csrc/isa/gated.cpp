// gated: two linears over the same rows, their gate, and its rounding to the operand of the linear
// behind it, without a trip of float32 numbers through memory.
//
// A unit of work is 32 columns of the result, which are one group of its codes (layout.h):
//
//   gate panels 2u, 2u + 1 ---> 32 columns --+
//                                            +--> activation(gate) * up --> block u of the operand
//   up panels   2u, 2u + 1 ---> 32 columns --+
//
// 48 rows at a time, so that what lies between the steps (12 KB) stays in L1.
// Cost: that of the two products; the gate takes some 25 operations per vector of eight. Saved is
// writing and reading 8 bytes per row and column, and one meeting of all threads.
#include "isa/linear.h"
#include "isa/ops.h"
#include "isa/parallel.h"
#include "isa/quantize.h"
#include "isa/rows.h"

namespace stoker::STOKER_ISA {
namespace {

void half_unit(const Gated& a, const Part& part, int64_t unit, Rows rows, float* out) {
  for (int64_t number = 2 * unit; number < 2 * unit + 2; ++number, out += PANEL) {
    const float* bias = part.bias ? part.bias + number * PANEL : nullptr;
    any_panel(a.x, rows, part.weight, number, {bias, nullptr, out, GROUP, PANEL, rows.begin});
  }
}

}  // namespace

void gated(Team& team, const Gated& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    const int64_t blocks = a.gate.weight.N / GROUP;
    const auto activate = a.gelu ? glu_range<true> : glu_range<false>;
    float gate[ROWS_AT_ONCE][GROUP], up[ROWS_AT_ONCE][GROUP];
    for (int64_t unit = begin; unit < end; ++unit) {
      for (int64_t first = 0; first < a.M; first += ROWS_AT_ONCE) {
        const Rows rows{first, least(first + ROWS_AT_ONCE, a.M)};
        half_unit(a, a.gate, unit, rows, gate[0]);
        half_unit(a, a.up, unit, rows, up[0]);
        activate(gate[0], up[0], (rows.end - first) * GROUP, gate[0]);
        auto* block = static_cast<Activations<1>*>(a.out) + first / TILE * blocks + unit;
        for (int64_t row = 0; row < rows.end - first; ++row)
          quantize_block(gate[row], block[row / TILE * blocks], row % TILE);
      }
    }
  };
  const int64_t units = a.gate.weight.N / GROUP;
  parallel(team, units, chunk_of(team, units, a.M * a.K * GROUP, chunks_each(a.M)), body);
}

}  // namespace stoker::STOKER_ISA
