// SPDX-License-Identifier: MIT
#include "memory/bounce_pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/guarded_copy.hpp"

namespace hbmwire::memory {

/// The copy that the caller polls. Its destructor need not wait, because the device only touches
/// our pinned memory, never the host's bytes.
class BouncePipeline::Copy final : public PendingCopy::Work {
 public:
  Copy(BouncePipeline& pipeline, std::shared_ptr<Job> job, std::shared_ptr<const void> keep)
      : pipeline_(pipeline), job_(std::move(job)), keep_(std::move(keep)) {}

  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  ~Copy() override { pipeline_.give_up(job_); }

  Result<bool> poll() override { return pipeline_.poll(*job_); }

 private:
  BouncePipeline& pipeline_;
  std::shared_ptr<Job> job_;
  std::shared_ptr<const void> keep_;
};

BouncePipeline::~BouncePipeline() = default;

Result<PendingCopy> BouncePipeline::start_in(std::uint64_t address, std::span<const std::byte> from,
                                             std::shared_ptr<const void> keep) {
  auto job = std::make_shared<Job>();
  job->direction = Direction::in;
  job->address = address;
  job->from = from.data();
  job->size_bytes = from.size();
  return start(job, std::move(keep));
}

Result<PendingCopy> BouncePipeline::start_out(std::uint64_t address, std::span<std::byte> to,
                                              std::shared_ptr<const void> keep) {
  auto job = std::make_shared<Job>();
  job->direction = Direction::out;
  job->address = address;
  job->to = to.data();
  job->size_bytes = to.size();
  return start(job, std::move(keep));
}

Result<PendingCopy> BouncePipeline::start(const std::shared_ptr<Job>& job,
                                          std::shared_ptr<const void> keep) {
  // Made before the job is queued. If its allocation failed after that, the job would go on and
  // access bytes that belong to the caller again.
  auto copy = std::make_unique<Copy>(*this, job, std::move(keep));
  const std::scoped_lock lock(mutex_);
  jobs_.push_back(job);
  drive();
  if (job->error) return tl::make_unexpected(*job->error);
  if (job->complete()) return PendingCopy();
  return PendingCopy(std::move(copy));
}

Result<bool> BouncePipeline::poll(Job& job) {
  const std::scoped_lock lock(mutex_);
  drive();
  if (job.error) return tl::make_unexpected(*job.error);
  return job.complete();
}

void BouncePipeline::give_up(const std::shared_ptr<Job>& job) noexcept {
  const std::scoped_lock lock(mutex_);
  job->given_up = true;
  std::erase(jobs_, job);
}

bool BouncePipeline::drain(const Deadline& deadline) {
  constexpr auto kPause = std::chrono::microseconds(50);
  while (true) {
    {
      const std::scoped_lock lock(mutex_);
      drive();
      const bool idle = std::ranges::all_of(
          slots_, [](const Slot& slot) { return slot.state == Slot::State::idle; });
      if (idle && jobs_.empty()) return true;
    }
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(kPause);
  }
}

void BouncePipeline::drive() {
  for (unsigned slot = 0; slot < slots_.size(); ++slot) collect(slot);
  while (!jobs_.empty()) {
    const std::shared_ptr<Job> job = jobs_.front();
    // Pieces of a copy that was given up may still be on their way to the same place.
    if (others_under_way(*job)) return;
    start_pieces(job);
    if (!job->error && !job->complete()) return;
    job->given_up = true;  // after an error, pieces may still be under way: they bring no bytes
    jobs_.pop_front();
  }
}

void BouncePipeline::collect(unsigned index) {
  Slot& slot = slots_[index];
  if (slot.state == Slot::State::moving) {
    const auto moved = mover_.poll(index);
    if (moved && !*moved) return;
    Job& job = *slot.job;
    const bool brings = moved && !job.given_up && !job.error && job.direction == Direction::out;
    // The application may have unmapped the host's bytes meanwhile.
    if (brings &&
        !copy_to_application(job.to + slot.offset_bytes, {mover_.memory(index), slot.length_bytes}))
      job.error = memory_gone(Stage::copy, "host");
    if (moved) job.moved_bytes += slot.length_bytes;
    if (!moved && !job.error) job.error = moved.error();
    slot.state = moved ? Slot::State::idle : Slot::State::settling;
  }
  if (slot.state == Slot::State::settling && mover_.settle(index)) slot.state = Slot::State::idle;
  if (slot.state == Slot::State::idle) slot.job.reset();
}

bool BouncePipeline::others_under_way(const Job& job) const noexcept {
  return std::ranges::any_of(slots_, [&](const Slot& slot) {
    return slot.state != Slot::State::idle && slot.job.get() != &job;
  });
}

void BouncePipeline::start_pieces(const std::shared_ptr<Job>& job) {
  for (unsigned index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    if (job->error || job->started_bytes == job->size_bytes) return;
    if (slot.state != Slot::State::idle) continue;
    const std::uint64_t offset = job->started_bytes;
    const std::uint64_t length = std::min(piece_bytes_, job->size_bytes - offset);
    if (job->direction == Direction::in &&
        !copy_from_application({mover_.memory(index), length}, job->from + offset)) {
      job->error = memory_gone(Stage::copy, "host");
      return;
    }
    const auto started = mover_.start({.slot = index,
                                       .direction = job->direction,
                                       .address = job->address + offset,
                                       .length_bytes = length});
    if (!started) {
      job->error = started.error();
      return;
    }
    slot = {
        .state = Slot::State::moving, .job = job, .offset_bytes = offset, .length_bytes = length};
    job->started_bytes += length;
  }
}

}  // namespace hbmwire::memory
