// SPDX-License-Identifier: MIT
#include <utility>

#include "hbmwire/attach.hpp"
#include "hbmwire/nic.hpp"

#include "attach/attach_service.hpp"
#include "base/guarded.hpp"

namespace hbmwire {

AttachPublication::AttachPublication(std::weak_ptr<detail::AttachService> service, std::uint64_t id,
                                     AttachAddress address) noexcept
    : service_(std::move(service)), id_(id), address_(std::move(address)) {}

AttachPublication::AttachPublication(AttachPublication&& other) noexcept = default;

AttachPublication& AttachPublication::operator=(AttachPublication&& other) noexcept {
  if (this == &other) return *this;
  withdraw();
  service_ = std::move(other.service_);
  id_ = other.id_;
  address_ = std::move(other.address_);
  return *this;
}

AttachPublication::~AttachPublication() { withdraw(); }

void AttachPublication::withdraw() noexcept {
  if (const auto service = service_.lock()) service->withdraw(id_);
}

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
    // A peer that may write by RDMA may write by a descriptor.
    const bool writable = range.writable && has(region.access(), Access::remote_write);
    HBMWIRE_TRY_ASSIGN(auto entry, service_->publish(memory, range, writable));
    return AttachPublication(service_, entry.id, std::move(entry.address));
  });
}

int AttachListener::fd() const noexcept { return service_->fd(); }

Result<void> AttachListener::progress() const {
  return guarded(Stage::connect, [&]() -> Result<void> { return service_->progress(); });
}

}  // namespace hbmwire
