// A packed weight: the memory behind a WeightView, and the packers that fill it.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels.h"

namespace stoker {

class Team;

class PackedWeight {
 public:
  // Allocates memory for the shape and format in `shape` (its data pointer is ignored).
  explicit PackedWeight(const WeightView& shape);

  const WeightView& view() const { return view_; }
  int64_t nbytes() const { return nbytes_; }
  uint8_t* data() { return memory_.get(); }

 private:
  struct Free { void operator()(uint8_t* p) const; };
  WeightView view_;
  int64_t nbytes_;
  std::unique_ptr<uint8_t[], Free> memory_;
};

// Fill `weight` from row-major arrays (see stoker.weights.formats). Threads share the panels; every
// source number is read once.
void pack_float(Team& team, PackedWeight& weight, const void* data);
void pack_int(Team& team, PackedWeight& weight, const void* codes, const void* scale,
              const void* minimum);

}  // namespace stoker
