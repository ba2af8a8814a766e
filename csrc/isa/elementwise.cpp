// rms_norm, glu, add, take_rows over row-major float32 [rows, K].
// Cost: one read of every input and one write of the output; all are bound by memory.
#include "isa/ops.h"
#include "isa/parallel.h"
#include "isa/rows.h"

namespace stoker::STOKER_ISA {
namespace {

constexpr int64_t STRIP = 1024;  // elements per unit of the flat operations

}  // namespace

void rms_norm(Team& team, const RmsNorm& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      norm_row(a.x + row * a.K, a.weight, a.K, a.eps, a.out + row * a.K);
  };
  parallel(team, a.M, chunk_of(team, a.M, a.K * 4), body);
}

void glu(Team& team, const Glu& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * STRIP, n = least(end * STRIP, a.n) - first;
    const auto range = a.gelu ? glu_range<true> : glu_range<false>;
    range(a.gate + first, a.up + first, n, a.out + first);
  };
  const int64_t units = (a.n + STRIP - 1) / STRIP;
  parallel(team, units, chunk_of(team, units, STRIP * 8), body);
}

void add(Team& team, const Add& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    const int64_t last = least(end * STRIP, a.n);
    for (int64_t i = begin * STRIP; i < last; ++i) a.out[i] = a.x[i] + a.y[i];
  };
  const int64_t units = (a.n + STRIP - 1) / STRIP;
  parallel(team, units, chunk_of(team, units, STRIP), body);
}

void take_rows(Team& team, const TakeRows& a) {
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t s = begin; s < end; ++s)
      memcpy(a.out + s * a.K, a.x + int64_t(a.index[s]) * a.K, size_t(a.K) * 4);
  };
  parallel(team, a.S, chunk_of(team, a.S, a.K), body);
}

}  // namespace stoker::STOKER_ISA
