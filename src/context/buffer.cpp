// SPDX-License-Identifier: MIT
#include "hbmwire/buffer.hpp"

#include <optional>
#include <utility>

#include "base/guarded.hpp"
#include "context/flushed_copy.hpp"
#include "transport/verbs/loopback.hpp"

namespace hbmwire {

namespace detail {

/// The state behind a Buffer. Copies hold it, so that it outlives them.
struct BufferState {
  explicit BufferState(Region region_of) : region(std::move(region_of)) {}

  Region region;
  std::optional<transport::Loopback>
      loopback;  // for device memory: copies without an engine, and flushes
  FlushedCopies copies;

  [[nodiscard]] MemoryDomain& domain() const { return region.allocation().domain(); }
};

}  // namespace detail

namespace {

using StatePointer = std::shared_ptr<detail::BufferState>;

Result<void> check_range(const Region& region, std::uint64_t offset, std::uint64_t length) {
  if (offset <= region.size_bytes() && length <= region.size_bytes() - offset) return {};
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::copy,
                                        "the range leaves the buffer",
                                        region.allocation().domain().device().name));
}

/// Makes earlier writes of NICs visible before the device's engine reads or overwrites the memory.
Result<PendingCopy> start_order_after_nic(const StatePointer& state, std::uint64_t offset) {
  if (!state->loopback) return PendingCopy();
  HBMWIRE_TRY_ASSIGN(const bool flushed, state->domain().flush());
  if (flushed) return PendingCopy();
  return state->loopback->start_flush(offset, state);
}

/// Starts the request, whose address this sets.
Result<PendingCopy> start_by_engine(const StatePointer& state, std::uint64_t offset,
                                    FlushedCopies::Request request) {
  HBMWIRE_TRY_ASSIGN(PendingCopy flush, start_order_after_nic(state, offset));
  request.address = state->region.address() + offset;
  return state->copies.start(state->domain(), request, std::move(flush), state);
}

}  // namespace

Buffer::Buffer(std::shared_ptr<detail::BufferState> state) noexcept : state_(std::move(state)) {}

Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;

Result<Buffer> Buffer::create(const std::shared_ptr<MemoryDomain>& domain, const Nic& nic,
                              std::uint64_t size_bytes, Access access) {
  return guarded(Stage::register_memory, [&]() -> Result<Buffer> {
    HBMWIRE_TRY_ASSIGN(const Allocation allocation, domain->allocate(size_bytes));
    return create(allocation, nic, access);
  });
}

Result<Buffer> Buffer::create(const Allocation& allocation, const Nic& nic, Access access) {
  return guarded(Stage::register_memory, [&]() -> Result<Buffer> {
    HBMWIRE_TRY_ASSIGN(const Region region,
                       nic.register_memory(allocation, access | Access::local_write));
    return create(region);
  });
}

Result<Buffer> Buffer::create(const Region& region) {
  return guarded(Stage::register_memory, [&]() -> Result<Buffer> {
    auto state = std::make_shared<detail::BufferState>(region);
    // Memory that no NIC writes to needs no flush.
    if (!region.nics().empty() && region.path() != Path::host) {
      if (!has(region.access(), Access::local_write)) {
        return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::copy,
                                              "the region is not registered for local writing",
                                              region.allocation().domain().device().name));
      }
      HBMWIRE_TRY_ASSIGN(state->loopback,
                         transport::Loopback::create(region.nics().front(), state->region));
    }
    return Buffer(std::move(state));
  });
}

const Region& Buffer::region() const noexcept { return state_->region; }

std::uint64_t Buffer::size_bytes() const noexcept { return state_->region.size_bytes(); }

std::string_view Buffer::copy_path() const noexcept {
  const std::string_view engine = state_->domain().copy_engine();
  return engine.empty() ? "NIC loopback" : engine;
}

Result<PendingCopy> Buffer::start_write(std::uint64_t offset_bytes,
                                        std::span<const std::byte> from) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    HBMWIRE_TRY(check_range(state_->region, offset_bytes, from.size()));
    if (from.empty()) return PendingCopy();
    if (state_->domain().copy_engine().empty())
      return state_->loopback->start_copy_in(offset_bytes, from, state_);
    return start_by_engine(state_, offset_bytes, {.address = 0, .from = from, .to = {}});
  });
}

Result<PendingCopy> Buffer::start_read(std::uint64_t offset_bytes, std::span<std::byte> to) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    HBMWIRE_TRY(check_range(state_->region, offset_bytes, to.size()));
    if (to.empty()) return PendingCopy();
    // A read through the NIC is ordered behind the NIC's own writes. A read by the device's engine
    // is not, unless a flush comes first.
    if (state_->domain().copy_engine().empty())
      return state_->loopback->start_copy_out(offset_bytes, to, state_);
    return start_by_engine(state_, offset_bytes, {.address = 0, .from = {}, .to = to});
  });
}

Result<void> Buffer::write(std::uint64_t offset_bytes, std::span<const std::byte> from,
                           const Wait& wait) {
  return guarded(Stage::copy, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(auto copy, start_write(offset_bytes, from));
    return copy.wait(wait);
  });
}

Result<void> Buffer::read(std::uint64_t offset_bytes, std::span<std::byte> to, const Wait& wait) {
  return guarded(Stage::copy, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(auto copy, start_read(offset_bytes, to));
    return copy.wait(wait);
  });
}

Result<void> Region::write(std::uint64_t offset_bytes, std::span<const std::byte> from,
                           const Wait& wait) const {
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(*this));
  return buffer.write(offset_bytes, from, wait);
}

Result<void> Region::read(std::uint64_t offset_bytes, std::span<std::byte> to,
                          const Wait& wait) const {
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(*this));
  return buffer.read(offset_bytes, to, wait);
}

}  // namespace hbmwire
