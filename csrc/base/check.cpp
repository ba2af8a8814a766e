#include "base/check.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace stoker {
namespace {

[[noreturn]] void refuse(const std::string& what, int64_t value, const std::string& limit) {
  throw std::invalid_argument(what + " is " + std::to_string(value) + ", but must be " + limit);
}

void check_between(const std::string& what, int64_t value, int64_t limit) {
  if (value < 0 || value >= limit)
    refuse(what, value, "at least 0 and below " + std::to_string(limit));
}

}  // namespace

void check_ids(const char* what, const int32_t* ids, int64_t n, int64_t limit) {
  for (int64_t i = 0; i < n; ++i) check_between(what, ids[i], limit);
}

void check_rows(const RowMap& rows, const KV& kv, int64_t max_positions, int64_t window,
                bool written_only) {
  const int64_t limit = std::min(max_positions, rows.max_pages * PAGE);
  int64_t checked_seq = -1, checked_from = 0, checked_to = 0;  // pages known to be good
  for (int64_t t = 0; t < rows.T; ++t) {
    const int64_t position = rows.positions[t], seq = rows.row_seq[t];
    check_between("a position", position, limit);
    check_between("a row's sequence", seq, rows.B);
    const int64_t end = position / PAGE + 1;
    const int64_t begin = written_only ? end - 1
                          : window     ? std::max<int64_t>(position - window + 1, 0) / PAGE
                                       : 0;
    if (seq == checked_seq && begin >= checked_from && end <= checked_to) continue;
    for (int64_t page = begin; page < end; ++page)
      check_between("a page number", rows.page_table[seq * rows.max_pages + page], kv.num_pages);
    checked_seq = seq, checked_from = begin, checked_to = end;
  }
}

}  // namespace stoker
