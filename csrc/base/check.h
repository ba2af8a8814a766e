// What only the numbers inside arrays can tell: ids, positions and pages in range.
// Everything here throws std::invalid_argument, which Python sees as ValueError.
#pragma once
#include <cstdint>

#include "kernels.h"

namespace stoker {

void check_ids(const char* what, const int32_t* ids, int64_t n, int64_t limit);

// Rows of a step: positions within the page table (and `max_positions`), every page that `window`
// (0: none) lets a row see within the pool. `written_only`: only the page of the position itself.
void check_rows(const RowMap& rows, const KV& kv, int64_t max_positions, int64_t window,
                bool written_only);

}  // namespace stoker
