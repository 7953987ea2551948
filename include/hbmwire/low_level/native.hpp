// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/nic.hpp"

// Declared in <infiniband/verbs.h>. Users of this header include that; the library's headers do
// not.
struct ibv_context;
struct ibv_pd;

/// The verbs objects below a Nic, for programs that make queue pairs of their own on memory that
/// the library registered. Everything here is borrowed: the Nic, or the Region, must outlive its
/// use, and objects that a program makes with it must be destroyed before. In a child by fork(2)
/// none of it may be used.
namespace hbmwire::native {

/// The opened device. Source: ibv_open_device(3). Its asynchronous events (ibv_get_async_event(3))
/// belong to the library: endpoints that close read all of them, without blocking. A program that
/// wants these events opens the device itself.
[[nodiscard]] HBMWIRE_API ibv_context* context(const Nic& nic) noexcept;

/// The protection domain of everything that is registered with `nic`. Source: ibv_alloc_pd(3).
[[nodiscard]] HBMWIRE_API ibv_pd* protection_domain(const Nic& nic) noexcept;

/// The key by which a queue pair of `nic` names `region` in its own work requests. Errors:
/// Errc::invalid_argument, Stage::post (the region is not registered with that NIC).
[[nodiscard]] HBMWIRE_API Result<std::uint32_t> local_key(const Region& region, const Nic& nic);

/// The meaning of a failed work completion: the Error for its `status` (enum ibv_wc_status,
/// ibv_poll_cq(3)), with the usual cause. Stage::complete.
[[nodiscard]] HBMWIRE_API Error completion_error(int status, std::string_view subject) noexcept;

}  // namespace hbmwire::native
