// Memory for packed weights, in few large pieces on huge pages.
//
// Decode at batch 1 streams every weight once a token. On pages of 4 KB a stream of some tens of
// MB misses the TLB every 64 lines, and in a virtual machine each miss walks two page tables:
// reading on 2 MB pages was measured at 1.25 to 1.5 times that speed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace stoker {

// Memory that nobody else has, 2 MB aligned, on huge pages where the system grants them. It is
// committed when it is first written.
class HugeBlock {
 public:
  explicit HugeBlock(size_t bytes);  // throws std::bad_alloc
  ~HugeBlock();
  HugeBlock(const HugeBlock&) = delete;
  HugeBlock& operator=(const HugeBlock&) = delete;
  uint8_t* data() { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_;
  size_t bytes_;
};

// Hands out pieces, one behind the other; a block lives as long as any of its pieces. Any thread
// may call.
class WeightArena {
 public:
  std::shared_ptr<uint8_t> take(int64_t bytes);  // 64-byte aligned, with readable bytes behind it

 private:
  std::mutex mutex_;
  std::shared_ptr<HugeBlock> block_;
  size_t used_ = 0;
};

}  // namespace stoker
