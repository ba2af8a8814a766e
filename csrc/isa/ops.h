// The ops that this folder compiles for one instruction set; see kernels.h for their arguments.
#pragma once
#include "kernels.h"

namespace stoker::STOKER_ISA {

void embed(Team&, const Embed&);
void linear(Team&, const Linear&);
void prepare(Team&, const Prepare&);
void product(Team&, const Product&);
void gated(Team&, const Gated&);
void rms_norm(Team&, const RmsNorm&);
void rope_and_store(Team&, const Rope&);
void attention(Team&, const Attention&);
void glu(Team&, const Glu&);
void add(Team&, const Add&);
void take_rows(Team&, const TakeRows&);
bool block_maxima(const float* x, int64_t n, float* out);
uint64_t masses(const float* x, int64_t n, const Weighing& how, float bound, uint64_t* out);

}  // namespace stoker::STOKER_ISA
