// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "base/forks.hpp"
#include "base/guarded.hpp"
#include "base/internals.hpp"
#include "memory/kept_memory.hpp"

namespace hbmwire {

namespace detail {

/// The observers that a domain tells about memory that has gone. An observer may be called while
/// another thread drops it, and may drop itself within the call. So none is called with the lock
/// held, and each is kept alive for its call.
class MemoryObservers {
 public:
  void add(std::weak_ptr<MemoryObserver> observer) {
    const std::scoped_lock lock(mutex_);
    // Reuses the place of an observer that has gone. The others must keep their places, because
    // tell_gone() counts by them.
    for (auto& known : observers_) {
      if (!known.expired()) continue;
      known = std::move(observer);
      return;
    }
    observers_.push_back(std::move(observer));
  }

  void tell_gone(std::uint64_t address, std::uint64_t size_bytes,
                 const std::shared_ptr<const void>& memory) noexcept {
    for (std::size_t i = 0;; ++i) {
      std::shared_ptr<MemoryObserver> observer;
      {
        const std::scoped_lock lock(mutex_);
        if (i >= observers_.size()) return;
        observer = observers_[i].lock();
      }
      if (observer) observer->memory_gone(address, size_bytes, memory);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<MemoryObserver>> observers_;
};

/// Releases its memory when it is destroyed.
struct HeldMemory {
  HeldMemory(std::shared_ptr<MemoryDomain> domain_of, std::uint64_t address_of)
      : domain(std::move(domain_of)), address(address_of) {}

  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  ~HeldMemory() {
    if (is_parents()) {
      // The domain must not be destroyed here either, because that would close the device: one
      // reference to it is leaked on purpose.
      alignas(std::shared_ptr<MemoryDomain>) std::byte holder[sizeof(domain)];
      new (&holder) std::shared_ptr<MemoryDomain>(std::move(domain));
      return;
    }
    Internals::release(*domain, address);
  }

  // A child by fork(2) has its own pages and descriptors, but not a device's memory.
  [[nodiscard]] bool is_parents() const noexcept {
    const MemoryType type = domain->device().type;
    return made.is_inherited() && type != MemoryType::host && type != MemoryType::dmabuf;
  }

  MadeHere made;
  std::shared_ptr<MemoryDomain> domain;
  std::uint64_t address;
};

/// The state that all Allocations of one piece of memory share. When the last Allocation goes,
/// observers are told. The memory is released when the last observer that still needs it drops it.
struct AllocationState {
  AllocationState(std::shared_ptr<MemoryDomain> domain_of, std::uint64_t address_of,
                  std::uint64_t size_of, bool is_ours)
      : domain(std::move(domain_of)), address(address_of), size_bytes(size_of) {
    if (is_ours) held = std::make_shared<const HeldMemory>(domain, address);
  }

  /// If there is no memory for the state, releases the memory that it was to hold.
  static std::shared_ptr<AllocationState> own(const std::shared_ptr<MemoryDomain>& domain,
                                              std::uint64_t address, std::uint64_t size_bytes) {
    try {
      return std::make_shared<AllocationState>(domain, address, size_bytes, /*is_ours=*/true);
    } catch (const std::bad_alloc&) {
      Internals::release(*domain, address);
      throw;
    }
  }

  AllocationState(const AllocationState&) = delete;
  AllocationState& operator=(const AllocationState&) = delete;

  ~AllocationState() {
    if (held) state_of(*domain).tell_gone(address, size_bytes, held);
  }

  std::shared_ptr<MemoryDomain> domain;
  std::uint64_t address;
  std::uint64_t size_bytes;
  std::shared_ptr<const HeldMemory> held;  // null: the application's own memory
};

}  // namespace detail

std::string_view to_string(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::host:
      return "host";
    case MemoryType::gaudi:
      return "gaudi";
    case MemoryType::cuda:
      return "cuda";
    case MemoryType::rocm:
      return "rocm";
    case MemoryType::dmabuf:
      return "dmabuf";
  }
  return "?";
}

std::string_view to_string(Path path) noexcept {
  switch (path) {
    case Path::host:
      return "host memory";
    case Path::zero_copy:
      return "zero-copy dma-buf";
    case Path::peer_memory:
      return "peer memory";
    case Path::nic_loopback:
      return "NIC loopback";
    case Path::staged:
      return "staging in host memory";
    case Path::copy:
      return "the device's copy engine";
    case Path::tcp:
      return "TCP";
    case Path::ipc:
      return "the peer's copy engine (IPC)";
    case Path::shared_memory:
      return "shared memory";
  }
  return "?";
}

std::string_view name_of(Path path) noexcept {
  switch (path) {
    case Path::host:
      return "host";
    case Path::zero_copy:
      return "zero_copy";
    case Path::peer_memory:
      return "peer_memory";
    case Path::nic_loopback:
      return "nic_loopback";
    case Path::staged:
      return "staged";
    case Path::copy:
      return "copy";
    case Path::tcp:
      return "tcp";
    case Path::ipc:
      return "ipc";
    case Path::shared_memory:
      return "shared_memory";
  }
  return "?";
}

Allocation::Allocation(std::shared_ptr<MemoryDomain> domain, std::uint64_t address,
                       std::uint64_t size_bytes)
    : state_(detail::AllocationState::own(domain, address, size_bytes)) {}

Allocation Allocation::borrowed(std::shared_ptr<MemoryDomain> domain, std::uint64_t address,
                                std::uint64_t size_bytes) {
  return Allocation(std::make_shared<detail::AllocationState>(std::move(domain), address,
                                                              size_bytes,
                                                              /*is_ours=*/false));
}

std::uint64_t Allocation::address() const noexcept { return state_->address; }

std::uint64_t Allocation::size_bytes() const noexcept { return state_->size_bytes; }

MemoryDomain& Allocation::domain() const noexcept { return *state_->domain; }

bool detail::is_kept(const Allocation& memory) noexcept { return state_of(memory).held != nullptr; }

Result<void> MemoryDomain::advise(std::uint64_t /*address*/, std::uint64_t /*length_bytes*/,
                                  Advice /*advice*/) {
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::configure,
                                        "the driver takes no advice about this memory",
                                        device().name));
}

MemoryDomain::MemoryDomain() : state_(std::make_unique<detail::MemoryObservers>()) {}

MemoryDomain::~MemoryDomain() = default;

Result<void> MemoryDomain::observe(std::weak_ptr<MemoryObserver> observer) {
  return guarded(Stage::allocate, [&]() -> Result<void> {
    state_->add(std::move(observer));
    return {};
  });
}

}  // namespace hbmwire
