#include "plan/plan.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/check.h"

namespace stoker {

void Plan::embed(const Embed& op) {
  vocab_ = op.table.N;
  ops_.push_back([this, op](const Step& step) {
    Embed now = op;
    now.ids = step.ids(), now.T = step.tokens();
    kernels_.embed(team_, now);
  });
}

void Plan::take_rows(const TakeRows& op) {
  ops_.push_back([this, op](const Step& step) {
    TakeRows now = op;
    now.index = step.sample_rows(), now.S = step.samples();
    kernels_.take_rows(team_, now);
  });
}

void Plan::prepare(Axis axis, const Prepare& op) {
  ops_.push_back([this, axis, op](const Step& step) {
    Prepare now = op;
    now.M = step.rows(axis.samples) * axis.times;
    kernels_.prepare(team_, now);
  });
}

void Plan::product(Axis axis, const Product& op, std::vector<Part> parts) {
  ops_.push_back([this, axis, op, parts = std::move(parts)](const Step& step) {
    Product now = op;
    now.M = step.rows(axis.samples) * axis.times;
    now.parts = parts.data(), now.count = int64_t(parts.size());
    kernels_.product(team_, now);
  });
}

void Plan::gated(Axis axis, const Gated& op) {
  ops_.push_back([this, axis, op](const Step& step) {
    Gated now = op;
    now.M = step.rows(axis.samples) * axis.times;
    kernels_.gated(team_, now);
  });
}

void Plan::add(Axis axis, const Add& op, int64_t width) {
  ops_.push_back([this, axis, op, width](const Step& step) {
    Add now = op;
    now.n = step.rows(axis.samples) * axis.times * width;
    kernels_.add(team_, now);
  });
}

void Plan::rope_and_store(int64_t group, const Rope& op, int64_t max_positions) {
  will_read({group, op.kv, max_positions, -1});
  ops_.push_back([this, group, op](const Step& step) {
    Rope now = op;
    now.rows = step.row_map(group);
    kernels_.rope_and_store(team_, now);
  });
}

void Plan::attention(int64_t group, const Attention& op) {
  will_read({group, op.kv, std::numeric_limits<int64_t>::max(), op.window});
  ops_.push_back([this, group, op](const Step& step) {
    Attention now = op;
    now.rows = step.row_map(group);
    kernels_.attention(team_, now);
  });
}

// Layers of a group read the same pages: one look at them is enough.
void Plan::will_read(const Check& check) {
  for (const Check& c : checks_)
    if (c.group == check.group && c.kv.num_pages == check.kv.num_pages &&
        c.max_positions == check.max_positions && c.window == check.window)
      return;
  checks_.push_back(check);
}

void Plan::check(const Step& step) const {
  check_ids("a token id", step.ids(), step.tokens(), vocab_);
  for (const Check& c : checks_) {
    if (c.group >= step.groups) throw std::invalid_argument("the step has too few KV groups");
    check_rows(step.row_map(c.group), c.kv, c.max_positions, std::max<int64_t>(c.window, 0),
               c.window < 0);
  }
}

void Plan::run(const Step& step) const {
  if (step.tokens() == 0) return;
  check(step);
  std::lock_guard lock(team_.busy);
  for (const auto& op : ops_) op(step);
}

}  // namespace stoker
