// The arrays of one step: which tokens, where they stand, which pages hold their sequences.
//
// Memory is taken once, for the largest step there can be. Rows of a sequence lie side by side:
//
//   add()        sequence 0        | sequence 1 | sequence 2
//   token_ids    t t t t t t t t t | t          | t t t t      [T]
//   row_seq      0 0 0 0 0 0 0 0 0 | 1          | 2 2 2 2      [T]
//   samples                      x | x          | -            [S] rows that logits are wanted of
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels.h"

namespace stoker {

class Step {
 public:
  Step(int64_t max_tokens, int64_t max_seqs, int64_t groups, int64_t max_pages);

  void clear();
  // Begin a sequence whose first row stands at `start`; its tokens and pages are then pushed.
  // Throws std::invalid_argument where the step is full, or the start is negative.
  void open(int64_t start, int64_t num_tokens);
  int32_t* token_ids() { return &token_ids_[size_t(rows_ - opened_)]; }  // of the open sequence
  // Room for `pages` pages of the open sequence in a group; throws where there are too few for its
  // rows or too many for the table.
  int32_t* page_table(int64_t group, int64_t pages);
  void sample_last();

  int64_t tokens() const { return rows_; }
  int64_t samples() const { return int64_t(samples_.size()); }
  int64_t rows(bool sampled) const { return sampled ? samples() : tokens(); }
  const int32_t* ids() const { return token_ids_.data(); }
  const int32_t* sample_rows() const { return samples_.data(); }
  RowMap row_map(int64_t group) const;

  const int64_t max_tokens, max_seqs, groups, max_pages;

 private:
  int64_t rows_ = 0, seqs_ = 0, opened_ = 0;  // opened_: rows of the open sequence
  std::vector<int32_t> token_ids_, positions_, row_seq_, samples_, page_tables_;
};

}  // namespace stoker
