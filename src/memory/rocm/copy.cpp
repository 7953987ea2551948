// SPDX-License-Identifier: MIT
#include "memory/rocm/copy.hpp"

#include <bit>
#include <optional>
#include <utility>

#include "base/guarded.hpp"

namespace hbmwire::memory::rocm {

namespace {

// The longest sleep before a look whether an earlier copy has failed.
constexpr std::uint64_t kDozeTicks = 100'000;  // of ROCr's clock: 1 ms at 100 MHz

/// The GPUs' address of host memory that the application has pinned, when it was allocated or
/// later; null if it is not pinned.
void* pinned_by_others(const Machine& machine, std::span<const std::byte> bytes) {
  PointerInfo info;
  if (machine.hsa().pointer_info(bytes.data(), &info, nullptr, nullptr, nullptr) != kHsaSuccess)
    return nullptr;
  // Locks of this library's own copies do not count: they end with those copies.
  const bool locked = info.type == kPointerLocked && !machine.host_locks().has(info.host_base);
  if (info.type != kPointerHsa && !locked) return nullptr;
  const auto offset =
      static_cast<std::size_t>(bytes.data() - static_cast<std::byte*>(info.host_base));
  if (offset > info.size_bytes || bytes.size() > info.size_bytes - offset) return nullptr;
  return static_cast<std::byte*>(info.agent_base) + offset;
}

/// Host memory that is locked for the GPU; its destructor unlocks it.
class LockedBytes {
 public:
  static Result<LockedBytes> lock(const Machine& machine, const Gpu& gpu,
                                  std::span<std::byte> bytes) {
    HostLocks& locks = machine.host_locks();
    if (void* const seen_at = pinned_by_others(machine, bytes))
      return LockedBytes(locks, nullptr, seen_at);
    HBMWIRE_TRY_ASSIGN(void* const seen_at, locks.lock(bytes, gpu.device.name));
    return LockedBytes(locks, bytes.data(), seen_at);
  }

  LockedBytes(LockedBytes&& other) noexcept
      : locks_(other.locks_),
        locked_(std::exchange(other.locked_, nullptr)),
        address_(other.address_) {}

  LockedBytes(const LockedBytes&) = delete;
  LockedBytes& operator=(const LockedBytes&) = delete;
  LockedBytes& operator=(LockedBytes&&) = delete;

  ~LockedBytes() {
    if (locked_ != nullptr) locks_.unlock(locked_);
  }

  /// The GPU's address, which may differ from the host's.
  [[nodiscard]] void* address() const noexcept { return address_; }

 private:
  LockedBytes(HostLocks& locks, void* locked, void* address)
      : locks_(locks), locked_(locked), address_(address) {}

  HostLocks& locks_;
  void* locked_;  // null: the application has locked the bytes
  void* address_;
};

/// A copy under way.
class HsaCopy final : public PendingCopy::Work {
 public:
  HsaCopy(std::shared_ptr<const Machine> machine, const Gpu& gpu, std::optional<LockedBytes> bytes)
      : machine_(std::move(machine)), gpu_(gpu), bytes_(std::move(bytes)) {}

  HsaCopy(const HsaCopy&) = delete;
  HsaCopy& operator=(const HsaCopy&) = delete;

  ~HsaCopy() override {
    if (!signal_) return;
    while (!over()) signal_->doze();
  }

  [[nodiscard]] void* host_address() const noexcept { return bytes_->address(); }

  /// The copy was handed to the GPU. `previous` must live until this copy has seen that one end.
  void started(std::shared_ptr<Signal> signal, std::shared_ptr<Signal> previous) noexcept {
    signal_ = std::move(signal);
    previous_ = std::move(previous);
  }

  Result<bool> poll() override {
    if (!over()) return false;
    if (!signal_->failed()) return true;
    return tl::make_unexpected(
        make_error(Errc::system, Stage::copy, "the GPU's copy engine failed", gpu_.device.name));
  }

 private:
  // Settles the previous copy, too: if that one has failed, this one would wait for ever.
  bool over() noexcept {
    if (previous_) previous_->settle();
    return signal_->settle();
  }

  std::shared_ptr<const Machine> machine_;
  const Gpu& gpu_;
  std::optional<LockedBytes> bytes_;  // the host's side
  std::shared_ptr<Signal> previous_;
  std::shared_ptr<Signal> signal_;
};

}  // namespace

Result<std::shared_ptr<Signal>> Signal::create(const Hsa& hsa, std::string_view device) {
  SignalHandle handle;
  // 1: the copy is not over. 0 and nullptr: any agent may wait for the signal.
  if (const int status = hsa.signal_create(1, 0, nullptr, &handle); status != kHsaSuccess)
    return tl::make_unexpected(hsa_error(Stage::copy, "hsa_signal_create", status, device));
  return or_undo([&] { return std::make_shared<Signal>(hsa, handle); },
                 [&] { hsa.signal_destroy(handle); });
}

Signal::~Signal() {
  destroy_or_log_hsa("hsa_signal_destroy", [&] { return hsa_.signal_destroy(handle_); });
}

bool Signal::settle() noexcept {
  const std::int64_t value = hsa_.signal_load(handle_);
  if (value > 0) return false;
  if (value < 0) {
    failed_.store(true, std::memory_order_release);
    hsa_.signal_store(handle_, 0);
  }
  return true;
}

void Signal::doze() const noexcept {
  hsa_.signal_wait(handle_, kConditionLess, 1, kDozeTicks, kWaitBlocked);
}

CopyQueue::CopyQueue(std::shared_ptr<const Machine> machine, const Gpu& gpu)
    : machine_(std::move(machine)), gpu_(gpu) {}

Result<PendingCopy> CopyQueue::start(Direction direction, std::uint64_t address,
                                     std::span<std::byte> bytes) {
  if (bytes.empty()) return PendingCopy();
  HBMWIRE_TRY_ASSIGN(LockedBytes locked, LockedBytes::lock(*machine_, gpu_, bytes));
  auto copy = std::make_unique<HsaCopy>(machine_, gpu_, std::move(locked));
  const End host{copy->host_address(), machine_->cpu()};
  const End device{std::bit_cast<void*>(address), gpu_.agent};
  const bool in = direction == Direction::in;
  return hand_over(std::move(copy), in ? device : host, in ? host : device, bytes.size());
}

Result<PendingCopy> CopyQueue::start_within(std::uint64_t from, std::uint64_t to,
                                            std::uint64_t bytes) {
  if (bytes == 0) return PendingCopy();
  return hand_over(std::make_unique<HsaCopy>(machine_, gpu_, std::nullopt),
                   {std::bit_cast<void*>(to), gpu_.agent}, {std::bit_cast<void*>(from), gpu_.agent},
                   bytes);
}

template <class Copy>
Result<PendingCopy> CopyQueue::hand_over(std::unique_ptr<Copy> copy, End to, End from,
                                         std::uint64_t bytes) {
  const Hsa& hsa = machine_->hsa();
  HBMWIRE_TRY_ASSIGN(auto signal, Signal::create(hsa, gpu_.device.name));
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Signal> previous = last_ && !last_->settle() ? last_ : nullptr;
  // Each copy waits for the signal of the one before it, so that they run in order.
  const SignalHandle after = previous ? previous->handle() : SignalHandle{};
  const int status =
      hsa.async_copy(to.address, to.agent, from.address, from.agent, bytes, previous ? 1 : 0,
                     previous ? &after : nullptr, signal->handle());
  if (status != kHsaSuccess) {
    return tl::make_unexpected(
        hsa_error(Stage::copy, "hsa_amd_memory_async_copy", status, gpu_.device.name));
  }
  last_ = signal;
  copy->started(std::move(signal), std::move(previous));
  return PendingCopy(std::move(copy));
}

}  // namespace hbmwire::memory::rocm
