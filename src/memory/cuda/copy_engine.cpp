// SPDX-License-Identifier: MIT
#include "memory/cuda/copy_engine.hpp"

#include <algorithm>
#include <vector>

#include "base/guarded_copy.hpp"

namespace hbmwire::memory::cuda {

namespace {

// Bytes. Large enough that the fixed cost of a job hardly counts.
constexpr std::size_t kBounceBytes = 4U << 20U;

/// A copy by the CPU, which the stream calls between its own copies. One side is our pinned buffer.
/// The other side may be memory that the application has unmapped meanwhile.
struct Move {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  bool failed = false;  // read only after the copy's event, which comes behind all its moves
};

void run_move(void* data) {
  auto& move = *static_cast<Move*>(data);
  // Either side may be the application's: the call also fails if it cannot read `from`.
  move.failed = !copy_to_application(static_cast<std::byte*>(move.to),
                                     {static_cast<const std::byte*>(move.from), move.bytes});
}

}  // namespace

/// A copy under way: the moves that the stream calls, and the event after them.
class CopyEngine::Work final : public PendingCopy::Work {
 public:
  Work(const Driver& driver, const std::string& gpu) : driver_(driver), gpu_(gpu) {}

  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  ~Work() override {
    if (event_ == nullptr) return;
    if (posted_ && !done_)
      destroy_or_log_cuda("cuEventSynchronize", [&] { return driver_.event_synchronize(event_); });
    destroy_or_log_cuda("cuEventDestroy", [&] { return driver_.event_destroy(event_); });
  }

  Result<bool> poll() override {
    const int result = driver_.event_query(event_);
    if (result == kNotReady) return false;
    done_ = true;  // after an error, too: the stream does nothing more
    HBMWIRE_TRY(check(Stage::copy, "cuEventQuery", result, gpu_));
    if (std::ranges::none_of(moves_, &Move::failed)) return true;
    return tl::make_unexpected(memory_gone(Stage::copy, "host"));
  }

  Result<void> prepare(std::size_t pieces) {
    moves_.reserve(pieces);  // the stream keeps pointers to them
    return check(Stage::copy, "cuEventCreate", driver_.event_create(&event_, kEventDisableTiming),
                 gpu_);
  }

  Result<void> post_move(StreamHandle stream, const Move& move) {
    moves_.push_back(move);
    return check(Stage::copy, "cuLaunchHostFunc",
                 driver_.launch_host_function(stream, run_move, &moves_.back()), gpu_);
  }

  Result<void> post_end(StreamHandle stream) {
    HBMWIRE_TRY(check(Stage::copy, "cuEventRecord", driver_.event_record(event_, stream), gpu_));
    posted_ = true;
    return {};
  }

 private:
  const Driver& driver_;
  const std::string& gpu_;  // of the engine, which outlives its copies
  EventHandle event_ = nullptr;
  std::vector<Move> moves_;
  bool posted_ = false;
  bool done_ = false;
};

Result<void> CopyEngine::pin(std::span<std::byte> memory) {
  return pinned_.add(memory, gpu_, [&](std::span<std::byte> bytes) -> Result<void> {
    const CurrentContext current(driver_, context_);
    HBMWIRE_TRY(current.status(Stage::copy, gpu_));
    return check(Stage::copy, "cuMemHostRegister",
                 driver_.host_register(bytes.data(), bytes.size(), kHostPortable), gpu_,
                 Hint::memlock_limit);
  });
}

void CopyEngine::unregister(std::span<std::byte> memory) noexcept {
  const auto current = CurrentContext::insist(driver_, context_);
  destroy_or_log_cuda("cuMemHostUnregister",
                      [&] { return driver_.host_unregister(memory.data()); });
}

void CopyEngine::unpin(std::span<std::byte> memory) noexcept {
  pinned_.remove(memory, [&](std::span<std::byte> bytes) { unregister(bytes); });
}

void CopyEngine::close() noexcept {
  pinned_.remove_all([&](std::span<std::byte> bytes) { unregister(bytes); });
  if (stream_ == nullptr && bounce_ == nullptr) return;
  const auto current = CurrentContext::insist(driver_, context_);
  if (stream_ != nullptr)
    destroy_or_log_cuda("cuStreamDestroy", [&] { return driver_.stream_destroy(stream_); });
  if (bounce_ != nullptr)
    destroy_or_log_cuda("cuMemFreeHost", [&] { return driver_.mem_free_host(bounce_); });
  stream_ = nullptr;
  bounce_ = nullptr;
}

Result<void> CopyEngine::make_stream() {
  if (stream_ != nullptr) return {};
  return check(Stage::copy, "cuStreamCreate", driver_.stream_create(&stream_, kStreamNonBlocking),
               gpu_);
}

Result<void> CopyEngine::make_bounce() {
  if (bounce_ != nullptr) return {};
  return check(Stage::copy, "cuMemAllocHost", driver_.mem_alloc_host(&bounce_, kBounceBytes), gpu_,
               Hint::memlock_limit);
}

template <class Post>
Result<PendingCopy> CopyEngine::start(std::size_t pieces, Post post) {
  auto work = std::make_unique<Work>(driver_, gpu_);
  HBMWIRE_TRY(work->prepare(pieces));
  const auto post_all = [&]() -> Result<void> {
    HBMWIRE_TRY(post(*work));
    return work->post_end(stream_);
  };
  if (const auto posted = post_all(); !posted) {
    // Waits, because pieces posted before the failure still use the moves and the caller's bytes.
    destroy_or_log_cuda("cuStreamSynchronize", [&] { return driver_.stream_synchronize(stream_); });
    return tl::make_unexpected(posted.error());
  }
  return PendingCopy(std::move(work));
}

template <class Post>
Result<PendingCopy> CopyEngine::start_by_bounce(std::size_t bytes, Post post) {
  if (bytes == 0) return PendingCopy();
  const CurrentContext current(driver_, context_);
  HBMWIRE_TRY(current.status(Stage::copy, gpu_));
  const std::scoped_lock lock(mutex_);
  HBMWIRE_TRY(make_stream());
  HBMWIRE_TRY(make_bounce());
  return start((bytes + kBounceBytes - 1) / kBounceBytes, [&](Work& work) -> Result<void> {
    for (std::size_t done = 0; done < bytes; done += kBounceBytes)
      HBMWIRE_TRY(post(work, done, std::min(kBounceBytes, bytes - done)));
    return {};
  });
}

template <class Post>
Result<PendingCopy> CopyEngine::start_straight(const char* call, Post post) {
  const CurrentContext current(driver_, context_);
  HBMWIRE_TRY(current.status(Stage::copy, gpu_));
  const std::scoped_lock lock(mutex_);
  HBMWIRE_TRY(make_stream());
  // 0: the stream copies without any move by the CPU.
  return start(0, [&](Work& /*work*/) { return check(Stage::copy, call, post(), gpu_); });
}

Result<PendingCopy> CopyEngine::start_between(std::uint64_t from, std::uint64_t to,
                                              std::uint64_t bytes) {
  if (bytes == 0) return PendingCopy();
  return start_straight("cuMemcpyAsync",
                        [&] { return driver_.memcpy_anywhere(to, from, bytes, stream_); });
}

Result<PendingCopy> CopyEngine::start_in(std::uint64_t address, std::span<const std::byte> from) {
  if (!from.empty() && pinned_.hold(from)) {
    return start_straight("cuMemcpyHtoDAsync", [&] {
      return driver_.memcpy_to_device(address, from.data(), from.size(), stream_);
    });
  }
  return start_by_bounce(
      from.size(), [&](Work& work, std::size_t at, std::size_t bytes) -> Result<void> {
        HBMWIRE_TRY(work.post_move(stream_, {bounce_, from.data() + at, bytes}));
        return check(Stage::copy, "cuMemcpyHtoDAsync",
                     driver_.memcpy_to_device(address + at, bounce_, bytes, stream_), gpu_);
      });
}

Result<PendingCopy> CopyEngine::start_out(std::uint64_t address, std::span<std::byte> to) {
  if (!to.empty() && pinned_.hold(to)) {
    return start_straight("cuMemcpyDtoHAsync", [&] {
      return driver_.memcpy_to_host(to.data(), address, to.size(), stream_);
    });
  }
  return start_by_bounce(
      to.size(), [&](Work& work, std::size_t at, std::size_t bytes) -> Result<void> {
        HBMWIRE_TRY(check(Stage::copy, "cuMemcpyDtoHAsync",
                          driver_.memcpy_to_host(bounce_, address + at, bytes, stream_), gpu_));
        return work.post_move(stream_, {to.data() + at, bounce_, bytes});
      });
}

}  // namespace hbmwire::memory::cuda
