#include "plan/step.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace stoker {
namespace {

void at_most(const char* what, int64_t value, int64_t limit) {
  if (value <= limit) return;
  throw std::invalid_argument(std::string(what) + " " + std::to_string(value) +
                              ", but must be at most " + std::to_string(limit));
}

}  // namespace

Step::Step(int64_t max_tokens, int64_t max_seqs, int64_t groups, int64_t max_pages)
    : max_tokens(max_tokens), max_seqs(max_seqs), groups(groups), max_pages(max_pages),
      token_ids_(size_t(max_tokens)), positions_(size_t(max_tokens)),
      row_seq_(size_t(max_tokens)), page_tables_(size_t(groups * max_seqs * max_pages)) {
  samples_.reserve(size_t(max_seqs));
}

void Step::clear() {
  rows_ = seqs_ = opened_ = 0;
  samples_.clear();
}

void Step::open(int64_t start, int64_t num_tokens) {
  at_most("sequences in a step are", seqs_ + 1, max_seqs);
  at_most("tokens in a step are", rows_ + num_tokens, max_tokens);
  at_most("a sequence's end is", start + num_tokens, max_pages * PAGE);
  if (start < 0 || num_tokens < 1)
    throw std::invalid_argument("a sequence needs a start of at least 0 and at least one token");
  std::iota(&positions_[size_t(rows_)], &positions_[size_t(rows_)] + num_tokens, int32_t(start));
  std::fill_n(&row_seq_[size_t(rows_)], num_tokens, int32_t(seqs_));
  rows_ += num_tokens, opened_ = num_tokens, ++seqs_;
}

int32_t* Step::page_table(int64_t group, int64_t pages) {
  at_most("pages of a sequence are", pages, max_pages);
  at_most("a sequence's last row stands at", positions_[size_t(rows_ - 1)], pages * PAGE - 1);
  return &page_tables_[size_t((group * max_seqs + seqs_ - 1) * max_pages)];
}

void Step::sample_last() { samples_.push_back(int32_t(rows_ - 1)); }

RowMap Step::row_map(int64_t group) const {
  return {positions_.data(), row_seq_.data(), &page_tables_[size_t(group * max_seqs * max_pages)],
          rows_, seqs_, max_pages};
}

}  // namespace stoker
