// SPDX-License-Identifier: MIT
#include "memory/gaudi/synapse_engine.hpp"

#include <bit>
#include <chrono>
#include <thread>

#include "base/guarded.hpp"
#include "base/log.hpp"

namespace hbmwire::memory::gaudi {

/// A copy under way on its own stream.
class SynapseEngine::Straight final : public PendingCopy::Work {
 public:
  Straight(SynapseEngine& engine, SynapseStream stream, std::shared_ptr<const void> keep)
      : engine_(engine), stream_(stream), keep_(std::move(keep)) {}

  Straight(const Straight&) = delete;
  Straight& operator=(const Straight&) = delete;

  ~Straight() override {
    const Synapse& synapse = *engine_.synapse_;
    while (!done_ && synapse.stream_query(stream_) == kSynBusy) pause();
    if (done_) {
      engine_.give_back(stream_);
      return;
    }
    // A stream on which a job has failed executes no later job. A stream that is still working
    // cannot be destroyed.
    while (synapse.stream_destroy(stream_) == kSynBusy) pause();
  }

  Result<bool> poll() override {
    const int status = engine_.synapse_->stream_query(stream_);
    if (status == kSynBusy) return false;
    done_ = status == kSynSuccess;
    if (done_) return true;
    return tl::make_unexpected(synapse_error(Stage::copy, "synStreamQuery", status, engine_.name_));
  }

 private:
  static void pause() {
    constexpr auto kPause = std::chrono::microseconds(20);
    std::this_thread::sleep_for(kPause);
  }

  SynapseEngine& engine_;
  SynapseStream stream_;
  bool done_ = false;
  std::shared_ptr<const void> keep_;  // keeps the engine alive; released last
};

SynapseEngine::~SynapseEngine() {
  using namespace std::chrono_literals;
  for (SynapseStream const stream : idle_)
    destroy_or_log_synapse("synStreamDestroy", [&] { return synapse_->stream_destroy(stream); });
  pinned_ranges_.remove_all([&](std::span<std::byte> bytes) { unmap(bytes); });
  if (pinned_ == nullptr) return;
  if (!pipeline_.drain(Deadline::after(5s))) {
    log_warning("SynapseAI", "does not end a copy: its streams and pinned memory leak", 0);
    return;
  }
  for (SynapseStream const stream : streams_) {
    if (stream == nullptr) continue;
    destroy_or_log_synapse("synStreamDestroy", [&] { return synapse_->stream_destroy(stream); });
  }
  destroy_or_log_synapse("synHostFree", [&] { return synapse_->host_free(device_, pinned_, 0); });
}

Result<void> SynapseEngine::pin(std::span<std::byte> memory) {
  return pinned_ranges_.add(memory, name_, [&](std::span<std::byte> bytes) -> Result<void> {
    const int status = synapse_->host_map(device_, bytes.size(), bytes.data());
    if (status == kSynSuccess) return {};
    return tl::make_unexpected(
        synapse_error(Stage::copy, "synHostMap", status, name_, Hint::memlock_limit));
  });
}

void SynapseEngine::unmap(std::span<std::byte> memory) noexcept {
  destroy_or_log_synapse("synHostUnmap",
                         [&] { return synapse_->host_unmap(device_, memory.data()); });
}

void SynapseEngine::unpin(std::span<std::byte> memory) noexcept {
  pinned_ranges_.remove(memory, [&](std::span<std::byte> bytes) { unmap(bytes); });
}

Result<void> SynapseEngine::prepare() {
  const std::scoped_lock lock(preparing_);
  if (pinned_ != nullptr) return {};
  const int status = synapse_->host_malloc(device_, kSlots * kPieceBytes, 0, &pinned_);
  if (status == kSynSuccess) return {};
  pinned_ = nullptr;
  return tl::make_unexpected(synapse_error(Stage::copy, "synHostMalloc", status, name_));
}

Result<PendingCopy> SynapseEngine::start_in(std::uint64_t address, std::span<const std::byte> from,
                                            std::shared_ptr<const void> keep) {
  if (pinned_ranges_.hold(from)) {
    return start_straight(std::bit_cast<std::uint64_t>(from.data()), address, from.size(),
                          kHostToDram, std::move(keep));
  }
  HBMWIRE_TRY(prepare());
  return pipeline_.start_in(address, from, std::move(keep));
}

Result<PendingCopy> SynapseEngine::start_out(std::uint64_t address, std::span<std::byte> to,
                                             std::shared_ptr<const void> keep) {
  if (pinned_ranges_.hold(to)) {
    return start_straight(address, std::bit_cast<std::uint64_t>(to.data()), to.size(), kDramToHost,
                          std::move(keep));
  }
  HBMWIRE_TRY(prepare());
  return pipeline_.start_out(address, to, std::move(keep));
}

Result<SynapseStream> SynapseEngine::take_stream() {
  const std::scoped_lock lock(idle_mutex_);
  if (!idle_.empty()) {
    SynapseStream const stream = idle_.back();
    idle_.pop_back();
    return stream;
  }
  idle_.reserve(made_ + 1);  // so that give_back() does not allocate
  SynapseStream stream = nullptr;
  const int status = synapse_->stream_create(&stream, device_, 0);
  if (status == kSynSuccess) ++made_;
  if (status == kSynSuccess) return stream;
  return tl::make_unexpected(synapse_error(Stage::copy, "synStreamCreateGeneric", status, name_));
}

void SynapseEngine::give_back(SynapseStream stream) noexcept {
  const std::scoped_lock lock(idle_mutex_);
  idle_.push_back(stream);
}

Result<PendingCopy> SynapseEngine::start_within(std::uint64_t from, std::uint64_t to,
                                                std::uint64_t bytes,
                                                std::shared_ptr<const void> keep) {
  return start_straight(from, to, bytes, kDramToDram, std::move(keep));
}

Result<PendingCopy> SynapseEngine::start_straight(std::uint64_t from, std::uint64_t to,
                                                  std::uint64_t bytes, int direction,
                                                  std::shared_ptr<const void> keep) {
  if (bytes == 0) return PendingCopy();
  HBMWIRE_TRY_ASSIGN(SynapseStream const stream, take_stream());
  auto copy = or_undo([&] { return std::make_unique<Straight>(*this, stream, std::move(keep)); },
                      [&] { give_back(stream); });
  const int status = synapse_->mem_copy_async(stream, from, bytes, to, direction);
  if (status == kSynSuccess) return PendingCopy(std::move(copy));
  return tl::make_unexpected(synapse_error(Stage::copy, "synMemCopyAsync", status, name_));
}

std::byte* SynapseEngine::memory(unsigned slot) noexcept {
  return static_cast<std::byte*>(pinned_) + slot * kPieceBytes;
}

Result<void> SynapseEngine::start(const BouncePipeline::Piece& piece) {
  SynapseStream& stream = streams_.at(piece.slot);
  if (stream == nullptr) {
    if (const int status = synapse_->stream_create(&stream, device_, 0); status != kSynSuccess) {
      stream = nullptr;
      return tl::make_unexpected(
          synapse_error(Stage::copy, "synStreamCreateGeneric", status, name_));
    }
  }
  const auto host = std::bit_cast<std::uint64_t>(memory(piece.slot));
  const bool in = piece.direction == BouncePipeline::Direction::in;
  const int status =
      synapse_->mem_copy_async(stream, in ? host : piece.address, piece.length_bytes,
                               in ? piece.address : host, in ? kHostToDram : kDramToHost);
  if (status == kSynSuccess) return {};
  return tl::make_unexpected(synapse_error(Stage::copy, "synMemCopyAsync", status, name_));
}

Result<bool> SynapseEngine::poll(unsigned slot) {
  const int status = synapse_->stream_query(streams_.at(slot));
  if (status == kSynSuccess) return true;
  if (status == kSynBusy) return false;
  return tl::make_unexpected(synapse_error(Stage::copy, "synStreamQuery", status, name_));
}

// A stream on which a job has failed executes no later job, so the next piece gets a new one.
// A stream that is still working cannot be destroyed.
bool SynapseEngine::settle(unsigned slot) noexcept {
  if (synapse_->stream_destroy(streams_.at(slot)) != kSynSuccess) return false;
  streams_.at(slot) = nullptr;
  return true;
}

}  // namespace hbmwire::memory::gaudi
