// A packed weight: the memory behind a WeightView, and the packers that fill it.
#pragma once
#include <cstdint>
#include <memory>

#include "base/arena.h"
#include "kernels.h"

namespace stoker {

class Team;

class PackedWeight {
 public:
  // Takes memory for the shape and format in `shape` (its data pointer is ignored).
  PackedWeight(WeightArena& arena, const WeightView& shape);

  const WeightView& view() const { return view_; }
  int64_t nbytes() const { return nbytes_; }
  uint8_t* data() { return memory_.get(); }

 private:
  WeightView view_;
  int64_t nbytes_;
  std::shared_ptr<uint8_t> memory_;
};

// Fill `weight` from row-major arrays (see stoker.weights.formats). Threads share the panels; every
// source number is read once.
void pack_float(Team& team, PackedWeight& weight, const void* data);
void pack_int(Team& team, PackedWeight& weight, const void* codes, const void* scale,
              const void* minimum);

}  // namespace stoker
