#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace stoker {
namespace {

constexpr size_t HUGE_PAGE = size_t(2) << 20;
// Reads past the end by a prefetch or a wide load stay in memory of ours.
constexpr size_t SLACK = 64, LINE = 64;

// What AddressSanitizer knows of malloc it must be told of pieces of a block: each lies between
// bytes that nobody may touch. Telling costs an eighth of a block.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t BLOCK_BYTES = HUGE_PAGE, FENCE = LINE;
void forbid(const void* data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
void allow(const void* data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
#else
constexpr size_t BLOCK_BYTES = size_t(256) << 20, FENCE = 0;
void forbid(const void*, size_t) {}
void allow(const void*, size_t) {}
#endif

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

HugeBlock::HugeBlock(size_t bytes) : bytes_(round_up(bytes, HUGE_PAGE)) {
  // mmap aligns to small pages only: take one huge page more, and give back what sticks out.
  const size_t taken = bytes_ + HUGE_PAGE;
  void* memory = mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  uint8_t* const begin = static_cast<uint8_t*>(memory);
  const size_t before = (HUGE_PAGE - reinterpret_cast<uintptr_t>(begin) % HUGE_PAGE) % HUGE_PAGE;
  data_ = begin + before;
  if (before) munmap(begin, before);
  munmap(data_ + bytes_, HUGE_PAGE - before);
#if defined(MADV_HUGEPAGE)
  madvise(data_, bytes_, MADV_HUGEPAGE);  // a system without them refuses, and that is fine
#endif
  forbid(data_, bytes_);
}

HugeBlock::~HugeBlock() {
  allow(data_, bytes_);
  munmap(data_, bytes_);
}

std::shared_ptr<uint8_t> WeightArena::take(int64_t bytes) {
  const size_t size = round_up(size_t(bytes), LINE) + FENCE;
  std::lock_guard lock(mutex_);
  if (!block_ || used_ + size + SLACK > block_->bytes()) {
    block_ = std::make_shared<HugeBlock>(std::max(BLOCK_BYTES, size + SLACK));
    used_ = 0;
  }
  uint8_t* piece = block_->data() + used_;
  used_ += size;
  allow(piece, size_t(bytes));
  return {block_, piece};
}

}  // namespace stoker
