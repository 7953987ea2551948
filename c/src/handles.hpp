// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/attach.hpp"
#include "hbmwire/blocks.hpp"
#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/counters.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/incoming_message.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/pending.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"
#include "hbmwire/topology.hpp"
#include "hbmwire/trace.hpp"
#include "hbmwire/worker.hpp"

#include "guarded.hpp"
#include "hbmwire.h"

/// The objects behind the handles. Each holds one object of the library.
namespace hbmwire::c {

/// Holds a value. It is there once the program has the handle.
template <class T>
struct Held {
  std::optional<T> value;

  void hold(T&& made) noexcept { value.emplace(std::move(made)); }
};

/// A list of things that one call asked for.
template <class T>
struct Listed {
  std::vector<T> all;

  void hold(std::vector<T>&& made) noexcept { all = std::move(made); }

  /// Errors: no such index.
  [[nodiscard]] Result<const T*> at(std::size_t index) const noexcept {
    if (index >= all.size()) return refuse("an index that is not less than the count");
    return &all[index];
  }
};

}  // namespace hbmwire::c

struct hbmwire_context : hbmwire::c::Held<hbmwire::Context> {};

struct hbmwire_allocation : hbmwire::c::Held<hbmwire::Allocation> {};

struct hbmwire_domain : hbmwire::c::Held<std::shared_ptr<hbmwire::MemoryDomain>> {};

struct hbmwire_worker : hbmwire::c::Held<hbmwire::Worker> {};

struct hbmwire_listener : hbmwire::c::Held<hbmwire::Listener> {};

struct hbmwire_invitation : hbmwire::c::Held<hbmwire::EndpointInvitation> {};

struct hbmwire_remote_region : hbmwire::c::Held<hbmwire::RemoteRegion> {};

struct hbmwire_prepared : hbmwire::c::Held<hbmwire::PreparedTransfer> {};

struct hbmwire_block_table : hbmwire::c::Held<hbmwire::BlockTable> {};

struct hbmwire_remote_block_table : hbmwire::c::Held<hbmwire::RemoteBlockTable> {};

struct hbmwire_message : hbmwire::c::Held<hbmwire::IncomingMessage> {};

struct hbmwire_memory_key : hbmwire::c::Held<hbmwire::MemoryKey> {};

struct hbmwire_remote_key : hbmwire::c::Held<hbmwire::RemoteKey> {};

struct hbmwire_registration_cache : hbmwire::c::Held<hbmwire::RegistrationCache> {};

struct hbmwire_attach_listener : hbmwire::c::Held<hbmwire::AttachListener> {};

struct hbmwire_attach_publication : hbmwire::c::Held<hbmwire::AttachPublication> {};

struct hbmwire_buffer : hbmwire::c::Held<hbmwire::Buffer> {};

struct hbmwire_copy : hbmwire::c::Held<hbmwire::PendingCopy> {};

struct hbmwire_counters : hbmwire::c::Held<hbmwire::Counters> {};

struct hbmwire_published : hbmwire::c::Held<hbmwire::PublishedProcess> {};

struct hbmwire_trace : hbmwire::c::Held<hbmwire::Trace> {};

struct hbmwire_report : hbmwire::c::Held<hbmwire::TransferReport> {};

struct hbmwire_nics : hbmwire::c::Listed<hbmwire::NicDevice> {};

struct hbmwire_near_nics : hbmwire::c::Listed<hbmwire::NearNic> {};

struct hbmwire_paths_tried : hbmwire::c::Listed<hbmwire::PathTried> {};

struct hbmwire_texts : hbmwire::c::Listed<std::string> {};

struct hbmwire_settings : hbmwire::c::Listed<hbmwire::SettingInfo> {};

/// An endpoint of its own, or that of a group.
struct hbmwire_endpoint {
  std::optional<hbmwire::Endpoint> own;
  hbmwire::Endpoint* value = nullptr;

  hbmwire_endpoint() = default;
  hbmwire_endpoint(const hbmwire_endpoint&) = delete;
  hbmwire_endpoint& operator=(const hbmwire_endpoint&) = delete;

  void hold(hbmwire::Endpoint&& made) noexcept { value = &own.emplace(std::move(made)); }
};

/// A transfer of its own, or that of a pending handle.
struct hbmwire_transfer {
  hbmwire::Transfer own;
  hbmwire::Transfer* at = &own;

  hbmwire_transfer() = default;
  hbmwire_transfer(const hbmwire_transfer&) = delete;
  hbmwire_transfer& operator=(const hbmwire_transfer&) = delete;

  void hold(hbmwire::Transfer&& made) noexcept { own = std::move(made); }

  [[nodiscard]] bool is_own() const noexcept { return at == &own; }
};

/// A region of its own, or that of a lease.
struct hbmwire_region {
  std::optional<hbmwire::Region> own;
  const hbmwire::Region* at = nullptr;

  hbmwire_region() = default;
  hbmwire_region(const hbmwire_region&) = delete;
  hbmwire_region& operator=(const hbmwire_region&) = delete;

  void hold(hbmwire::Region&& made) noexcept { at = &own.emplace(std::move(made)); }
};

struct hbmwire_registration_lease {
  hbmwire::RegistrationLease value;
  hbmwire_region region;

  void hold(hbmwire::RegistrationLease&& made) noexcept {
    value = std::move(made);
    region.at = &value.region();
  }
};

struct hbmwire_pending_endpoint {
  std::optional<hbmwire::PendingEndpoint> value;
  hbmwire_transfer transfer;

  void hold(hbmwire::PendingEndpoint&& made) noexcept {
    transfer.at = &value.emplace(std::move(made)).transfer();
  }
};

struct hbmwire_pending_region {
  std::optional<hbmwire::PendingRegion> value;
  hbmwire_transfer transfer;

  void hold(hbmwire::PendingRegion&& made) noexcept {
    transfer.at = &value.emplace(std::move(made)).transfer();
  }
};

namespace hbmwire::c {

/// When a caller's wait ends.
[[nodiscard]] inline Deadline deadline_of(std::int64_t timeout_ns) noexcept {
  return timeout_ns < 0 ? Deadline::never() : Deadline::after(std::chrono::nanoseconds(timeout_ns));
}

/// The same with the descriptor that ends it early.
[[nodiscard]] inline Wait wait_of(std::int64_t timeout_ns, std::int32_t cancel_fd) noexcept {
  return {deadline_of(timeout_ns), cancel_fd < 0 ? -1 : cancel_fd};
}

/// A duration in a caller's options; a negative one is for ever.
[[nodiscard]] inline std::chrono::nanoseconds duration_of(std::int64_t duration_ns) noexcept {
  return duration_ns < 0 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds(duration_ns);
}

/// A duration for a caller's options.
[[nodiscard]] inline std::int64_t number_of_ns(std::chrono::nanoseconds duration) noexcept {
  return duration == std::chrono::nanoseconds::max() ? std::int64_t{HBMWIRE_FOREVER}
                                                     : duration.count();
}

/// Text of a caller; NULL becomes empty text.
[[nodiscard]] inline std::string_view text_of(const char* text) noexcept {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

/// Bytes of a caller. Errors: NULL with a size other than 0.
[[nodiscard]] inline Result<std::span<const std::byte>> bytes_of(const void* bytes,
                                                                 std::size_t size) noexcept {
  if (bytes == nullptr && size != 0) return refuse("bytes are NULL, and their size is not 0");
  return std::span(static_cast<const std::byte*>(bytes), size);
}

/// A caller's room for bytes of an answer. Errors: as bytes_of().
[[nodiscard]] inline Result<std::span<std::byte>> room_of(void* bytes, std::size_t size) noexcept {
  if (bytes == nullptr && size != 0) return refuse("bytes are NULL, and their size is not 0");
  return std::span(static_cast<std::byte*>(bytes), size);
}

/// Parts of regions. Errors: NULL, or a part of no region.
[[nodiscard]] Result<Slice> slice_of(const hbmwire_slice* slice) noexcept;
[[nodiscard]] Result<RemoteSlice> slice_of(const hbmwire_remote_slice* slice) noexcept;

/// Rights from a caller. The library refuses bits that it does not know.
[[nodiscard]] Result<Access> access_of(hbmwire_access access) noexcept;

/// The library's options, from a caller's options.
[[nodiscard]] Result<MemoryOptions> memory_options_of(const hbmwire_memory_options* options);
[[nodiscard]] Result<DmabufMemory> dmabuf_of(const hbmwire_dmabuf* dmabuf);
[[nodiscard]] Result<PathPolicy> policy_of(hbmwire_path require, const hbmwire_path* allow,
                                           std::size_t count);
[[nodiscard]] Result<EndpointOptions> endpoint_options_of(const hbmwire_endpoint_options* options);
[[nodiscard]] Result<PutOptions> put_options_of(const hbmwire_put_options* options);
[[nodiscard]] Result<MemoryKeyOptions> key_options_of(const hbmwire_memory_key_options* options);
[[nodiscard]] Result<AttachAddress> address_of(const hbmwire_attach_address* address);

/// The names of NICs, or other names in an array. Errors: NULL with a count, or a NULL among them.
[[nodiscard]] Result<std::vector<std::string>> names_of(const char* const* names,
                                                        std::size_t count);

/// Facts for a caller. The strings stay those of the argument.
[[nodiscard]] hbmwire_device device_of(const DeviceInfo& info) noexcept;
[[nodiscard]] hbmwire_nic_info nic_of(const NicInfo& info) noexcept;
[[nodiscard]] hbmwire_path_tried tried_of(const PathTried& tried) noexcept;
void fill_address(hbmwire_attach_address& to, const AttachAddress& from) noexcept;

/// Writes an optional error into a caller's error, which may be NULL.
inline void tell_any(const std::optional<Error>& failed, hbmwire_error* error) noexcept {
  tell(failed ? &*failed : nullptr, error);
}

}  // namespace hbmwire::c
