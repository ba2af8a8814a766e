#include "base/team.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "base/pin.h"

namespace stoker {
namespace {

constexpr auto SPIN = std::chrono::microseconds(200);  // about the Python between two ops

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Team::Team(int threads, const std::vector<int>& cpus) : scratch_(size_t(threads) + 1) {
  for (int worker = 1; worker < threads; ++worker)
    workers_.emplace_back([this, worker, cpu = cpus.empty() ? -1 : cpus[size_t(worker)]] {
      if (cpu >= 0) pin_to(cpu);
      serve(worker);
    });
}

Team::~Team() {
  {
    std::lock_guard lock(sleep_mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& thread : workers_) thread.join();
  for (auto& scratch : scratch_) std::free(scratch.data);
}

int Team::threads() const { return int(workers_.size()) + 1; }

void* Team::scratch(int worker, int64_t bytes) { return grow(scratch_[size_t(worker)], bytes); }

void* Team::shared(int64_t bytes) { return grow(scratch_.back(), bytes); }

void* Team::grow(Scratch& scratch, int64_t bytes) {
  if (scratch.bytes < bytes) {
    const int64_t size = (bytes + bytes / 4 + 4095) / 4096 * 4096;
    void* data = std::aligned_alloc(4096, size_t(size));
    if (!data) throw std::bad_alloc();
    std::free(scratch.data);
    scratch = {data, size};
  }
  return scratch.data;
}

void Team::run(int64_t units, int64_t chunk, Work work, void* job) {
  if (units <= 0) return;
  if (workers_.empty() || units <= chunk) return work(job, 0, units, 0);
  units_ = units, chunk_ = chunk, work_ = work, job_ = job;
  next_.store(0, std::memory_order_relaxed);
  const uint64_t number = (gate_.load(std::memory_order_relaxed) & ~(JOB - 1)) + JOB;
  gate_.store(number | OPEN);
  if (asleep_.load() > 0) {
    std::lock_guard lock(sleep_mutex_);
    wake_.notify_all();
  }
  work_off(0);
  gate_.fetch_and(~OPEN, std::memory_order_acq_rel);
  for (int tries = 0; gate_.load(std::memory_order_acquire) & COUNT; ++tries) {
    if (tries < 4000) pause();
    else std::this_thread::yield();
  }
}

void Team::work_off(int worker) {
  for (;;) {
    const int64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= units_) return;
    work_(job_, begin, std::min(begin + chunk_, units_), worker);
  }
}

// Step into the current job, once, if it is still open.
bool Team::enter(uint64_t& last_job) {
  uint64_t seen = gate_.load(std::memory_order_acquire);
  while ((seen & OPEN) && (seen / JOB) != last_job) {
    if (gate_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) {
      last_job = seen / JOB;
      return true;
    }
  }
  return false;
}

void Team::serve(int worker) {
  uint64_t last_job = 0;
  auto idle_since = std::chrono::steady_clock::now();
  for (int tries = 1; !stop_.load(std::memory_order_relaxed); ++tries) {
    if (enter(last_job)) {
      work_off(worker);
      gate_.fetch_sub(1, std::memory_order_acq_rel);
      idle_since = std::chrono::steady_clock::now();
      continue;
    }
    pause();
    if (tries % 64 != 0 || std::chrono::steady_clock::now() - idle_since < SPIN) continue;
    std::unique_lock lock(sleep_mutex_);
    ++asleep_;
    wake_.wait(lock, [&] {
      const uint64_t seen = gate_.load();
      return stop_.load() || ((seen & OPEN) && (seen / JOB) != last_job);
    });
    --asleep_;
    idle_since = std::chrono::steady_clock::now();
  }
}

}  // namespace stoker
