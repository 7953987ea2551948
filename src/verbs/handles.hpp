// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>

#include "hbmwire/unique_handle.hpp"

#include "base/destroy.hpp"

namespace hbmwire::verbs {

/// Owner of a libibverbs object. All of these destroy functions return an errno, or -1 with errno.
template <class T, int (*Destroy)(T*), class Name>
struct HandleTraits {
  using type = T*;

  static constexpr type null() noexcept { return nullptr; }

  static void destroy(type handle) noexcept {
    destroy_or_log(
        Name::kName, [&] { return -std::abs(Destroy(handle)); },
        [](int result) { return result == -1 && errno != 0 ? errno : -result; });
  }
};

/// ibv_close_device(3) frees the context whatever it returns.
struct CloseDevice {
  using type = ibv_context*;

  static constexpr type null() noexcept { return nullptr; }

  static void destroy(type context) noexcept {
    if (ibv_close_device(context) != 0) log_warning("ibv_close_device", "failed", errno);
  }
};

struct DeallocPdName {
  static constexpr const char* kName = "ibv_dealloc_pd";
};

struct DeregMrName {
  static constexpr const char* kName = "ibv_dereg_mr";
};

struct DestroyChannelName {
  static constexpr const char* kName = "ibv_destroy_comp_channel";
};

struct DestroyCqName {
  static constexpr const char* kName = "ibv_destroy_cq";
};

struct DestroyQpName {
  static constexpr const char* kName = "ibv_destroy_qp";
};

using DeviceContext = UniqueHandle<CloseDevice>;
using Pd = UniqueHandle<HandleTraits<ibv_pd, ibv_dealloc_pd, DeallocPdName>>;
using Mr = UniqueHandle<HandleTraits<ibv_mr, ibv_dereg_mr, DeregMrName>>;
using CompletionChannel =
    UniqueHandle<HandleTraits<ibv_comp_channel, ibv_destroy_comp_channel, DestroyChannelName>>;
using Cq = UniqueHandle<HandleTraits<ibv_cq, ibv_destroy_cq, DestroyCqName>>;
using Qp = UniqueHandle<HandleTraits<ibv_qp, ibv_destroy_qp, DestroyQpName>>;
static_assert(sizeof(Mr) == sizeof(void*));

}  // namespace hbmwire::verbs
