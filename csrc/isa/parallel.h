// Run a lambda over units of work on the team.
#pragma once
#include "base/team.h"
#include "isa/simd.h"

namespace stoker::STOKER_ISA {

// body(begin, end, worker) is called for ranges that cover 0..units, in chunks of `chunk`.
template <class Body> static void parallel(Team& team, int64_t units, int64_t chunk, Body& body) {
  team.run(units, chunk, [](void* job, int64_t begin, int64_t end, int worker) {
    (*static_cast<Body*>(job))(begin, end, worker);
  }, &body);
}

// How many units to hand out at once, when one costs `cost` float operations or bytes: few enough
// that threads end together, enough that a memory stream is not cut up, and all of them where
// waking another thread takes longer than the work.
// each: chunks per thread; the more, the less one waits for another at the end.
INLINE int64_t chunk_of(Team& team, int64_t units, int64_t cost, int64_t each = 4) {
  constexpr int64_t WORTH_SHARING = 64 * 1024;
  const int64_t fair = (units + each * team.threads() - 1) / (each * team.threads());
  const int64_t least_units = (WORTH_SHARING + cost - 1) / most(cost, int64_t(1));
  return most(fair, most(least_units, int64_t(1)));
}

}  // namespace stoker::STOKER_ISA
