// SPDX-License-Identifier: MIT
#include "hbmwire/buffer.hpp"

#include <optional>
#include <utility>

#include "transport/verbs/loopback.hpp"

namespace hbmwire {

namespace detail {

struct BufferState {
  explicit BufferState(Region region_of) : region(std::move(region_of)) {}

  Region region;
  std::optional<transport::Loopback>
      loopback;  // for device memory: copies without an engine, and flushes

  [[nodiscard]] MemoryDomain& domain() const { return region.allocation().domain(); }
};

}  // namespace detail

namespace {

Result<void> check_range(const Region& region, std::uint64_t offset, std::uint64_t length) {
  if (offset <= region.size_bytes() && length <= region.size_bytes() - offset) return {};
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::copy,
                                        "the range leaves the buffer",
                                        region.allocation().domain().device().name));
}

/// What the NIC wrote is there before the device's engine reads it, or writes over it.
Result<void> order_after_nic(detail::BufferState& state, std::uint64_t offset, const Wait& wait) {
  if (!state.loopback) return {};
  HBMWIRE_TRY_ASSIGN(const bool flushed, state.domain().flush());
  if (flushed) return {};
  return state.loopback->flush(state.region, offset, wait);
}

}  // namespace

Buffer::Buffer(std::unique_ptr<detail::BufferState> state) noexcept : state_(std::move(state)) {}

Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;

Result<Buffer> Buffer::create(const std::shared_ptr<MemoryDomain>& domain, const Nic& nic,
                              std::uint64_t size_bytes, Access access) {
  HBMWIRE_TRY_ASSIGN(const Allocation allocation, domain->allocate(size_bytes));
  return create(allocation, nic, access);
}

Result<Buffer> Buffer::create(const Allocation& allocation, const Nic& nic, Access access) {
  HBMWIRE_TRY_ASSIGN(Region region, nic.register_memory(allocation, access | Access::local_write));
  auto state = std::make_unique<detail::BufferState>(std::move(region));
  if (state->region.path() != Path::host) {
    HBMWIRE_TRY_ASSIGN(state->loopback, transport::Loopback::create(nic));
  }
  return Buffer(std::move(state));
}

const Region& Buffer::region() const noexcept { return state_->region; }

std::uint64_t Buffer::size_bytes() const noexcept { return state_->region.size_bytes(); }

std::string_view Buffer::copy_path() const noexcept {
  const std::string_view engine = state_->domain().copy_engine();
  return engine.empty() ? "NIC loopback" : engine;
}

Result<void> Buffer::write(std::uint64_t offset_bytes, std::span<const std::byte> from,
                           const Wait& wait) {
  HBMWIRE_TRY(check_range(state_->region, offset_bytes, from.size()));
  if (from.empty()) return {};
  if (state_->domain().copy_engine().empty())
    return state_->loopback->copy_in(state_->region, offset_bytes, from, wait);
  HBMWIRE_TRY(order_after_nic(*state_, offset_bytes, wait));
  return state_->domain().copy_in(state_->region.address() + offset_bytes, from, wait);
}

Result<void> Buffer::read(std::uint64_t offset_bytes, std::span<std::byte> to, const Wait& wait) {
  HBMWIRE_TRY(check_range(state_->region, offset_bytes, to.size()));
  if (to.empty()) return {};
  // A read through the NIC follows its own writes; the device's engine does not, before a flush.
  if (state_->domain().copy_engine().empty())
    return state_->loopback->copy_out(state_->region, offset_bytes, to, wait);
  HBMWIRE_TRY(order_after_nic(*state_, offset_bytes, wait));
  return state_->domain().copy_out(state_->region.address() + offset_bytes, to, wait);
}

}  // namespace hbmwire
