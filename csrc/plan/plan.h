// A model's forward as a list of kernels, recorded once and replayed with one call per step.
//
// What an op reads and writes are addresses fixed at recording: an arena that is large enough for
// the largest step. A step brings only numbers of rows and the arrays of step.h. The team's threads
// stay awake from the first op to the last.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/team.h"
#include "kernels.h"
#include "plan/step.h"

namespace stoker {

// How many rows an array has in a step: a row per token or per sample, times `times` (heads).
struct Axis { bool samples; int64_t times; };

class Plan {
 public:
  Plan(Team& team, const KernelTable& kernels) : team_(team), kernels_(kernels) {}

  // Each call records one op; numbers of rows and arrays of the step are left out of the arguments.
  void embed(const Embed& op);
  void take_rows(const TakeRows& op);
  void prepare(Axis axis, const Prepare& op);
  void product(Axis axis, const Product& op, std::vector<Part> parts);
  void gated(Axis axis, const Gated& op);
  void add(Axis axis, const Add& op, int64_t width);
  void rope_and_store(int64_t group, const Rope& op, int64_t max_positions);
  void attention(int64_t group, const Attention& op);

  // Throws std::invalid_argument where an id, position or page of the step is out of range.
  void run(const Step& step) const;

 private:
  struct Check { int64_t group; KV kv; int64_t max_positions, window; };
  void will_read(const Check& check);
  void check(const Step& step) const;

  Team& team_;
  const KernelTable& kernels_;
  int64_t vocab_ = 0;
  std::vector<Check> checks_;
  std::vector<std::function<void(const Step&)>> ops_;
};

}  // namespace stoker
