// SPDX-License-Identifier: MIT
#include <memory>
#include <utility>

#include "hbmwire/attach.hpp"
#include "hbmwire/nic.hpp"

#include "attach/attach_service.hpp"
#include "base/guarded.hpp"
#include "base/internals.hpp"

namespace hbmwire {

namespace detail {

/// Owns one publication: its destructor withdraws it.
struct PublicationState {
  explicit PublicationState(std::weak_ptr<AttachService> service_of)
      : service(std::move(service_of)) {}

  PublicationState(const PublicationState&) = delete;
  PublicationState& operator=(const PublicationState&) = delete;

  ~PublicationState() {
    if (const auto still_there = service.lock()) still_there->withdraw(entry.id);
  }

  std::weak_ptr<AttachService> service;
  AttachService::Entry entry;
};

}  // namespace detail

AttachPublication::AttachPublication(std::unique_ptr<detail::PublicationState> state) noexcept
    : state_(std::move(state)) {}

AttachPublication::AttachPublication(AttachPublication&& other) noexcept = default;
AttachPublication& AttachPublication::operator=(AttachPublication&& other) noexcept = default;
AttachPublication::~AttachPublication() = default;

const AttachAddress& AttachPublication::address() const noexcept { return state_->entry.address; }

AttachListener::AttachListener(std::shared_ptr<detail::AttachService> service) noexcept
    : service_(std::move(service)) {}

AttachListener::AttachListener(AttachListener&&) noexcept = default;
AttachListener& AttachListener::operator=(AttachListener&&) noexcept = default;
AttachListener::~AttachListener() = default;

Result<AttachListener> AttachListener::create() {
  return guarded(Stage::connect, [&]() -> Result<AttachListener> {
    HBMWIRE_TRY_ASSIGN(auto service, detail::AttachService::create());
    return AttachListener(std::move(service));
  });
}

Result<AttachPublication> AttachListener::publish(const Region& region) const {
  return guarded(Stage::export_dmabuf, [&]() -> Result<AttachPublication> {
    const Allocation& memory = region.allocation();
    if (region.path() == Path::host) {
      return tl::make_unexpected(make_error(Errc::not_supported, Stage::export_dmabuf,
                                            "host memory has no dma-buf to be published",
                                            memory.domain().device().name, Hint::attach_no_dmabuf));
    }
    HBMWIRE_TRY_ASSIGN(const DmabufRange range,
                       memory.domain().export_dmabuf(region.address(), region.size_bytes()));
    // A peer that may write by RDMA may also write through a descriptor.
    const bool writable = range.writable && has(region.access(), Access::remote_write);
    auto state = std::make_unique<detail::PublicationState>(service_);
    HBMWIRE_TRY_ASSIGN(state->entry, service_->publish(memory, range, writable));
    return handle_of<AttachPublication>(std::move(state));
  });
}

int AttachListener::fd() const noexcept { return service_->fd(); }

Result<void> AttachListener::progress() const {
  return guarded(Stage::connect, [&]() -> Result<void> { return service_->progress(); });
}

}  // namespace hbmwire
