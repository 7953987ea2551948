// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "hbmwire/unique_handle.hpp"

#include "base/destroy.hpp"
#include "base/forks.hpp"

namespace hbmwire::verbs {

/// The owner of a libibverbs object. Objects belong to an open device file, which a child by
/// fork(2) shares. If the child destroyed an object, its parent would lose it while using it, and
/// the parent's peers could no longer use its keys. So a child drops inherited objects without a
/// call.
template <class Traits>
class Handle {
 public:
  using type = typename Traits::type;

  Handle() noexcept = default;

  explicit Handle(type object) noexcept : object_(object) {}

  Handle(Handle&& other) noexcept = default;

  Handle& operator=(Handle&& other) noexcept {
    if (this == &other) return *this;
    reset();
    object_ = std::move(other.object_);
    made_ = other.made_;
    return *this;
  }

  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  ~Handle() { reset(); }

  [[nodiscard]] type get() const noexcept { return object_.get(); }

  explicit operator bool() const noexcept { return static_cast<bool>(object_); }

  /// Whether the object belongs to the parent.
  [[nodiscard]] bool is_inherited() const noexcept { return made_.is_inherited(); }

  /// Gives up the object without destroying it.
  [[nodiscard]] type release() noexcept { return object_.release(); }

  void reset() noexcept {
    if (is_inherited()) static_cast<void>(object_.release());
    object_.reset();
  }

 private:
  UniqueHandle<Traits> object_;
  MadeHere made_;
};

/// All of these destroy functions return 0, a positive errno, or -1 with errno. destroy_or_log()
/// takes only a negative number as a failure.
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

/// ibv_close_device(3) frees the context even if it fails.
struct CloseDevice {
  using type = ibv_context*;

  static constexpr type null() noexcept { return nullptr; }

  static void destroy(type context) noexcept {
    if (ibv_close_device(context) != 0) log_warning("ibv_close_device", "failed", errno);
  }
};

// The names of the destroy functions, for the log.
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

struct DestroySrqName {
  static constexpr const char* kName = "ibv_destroy_srq";
};

using DeviceContext = Handle<CloseDevice>;
using Pd = Handle<HandleTraits<ibv_pd, ibv_dealloc_pd, DeallocPdName>>;
using Mr = Handle<HandleTraits<ibv_mr, ibv_dereg_mr, DeregMrName>>;
using CompletionChannel =
    Handle<HandleTraits<ibv_comp_channel, ibv_destroy_comp_channel, DestroyChannelName>>;
using Cq = Handle<HandleTraits<ibv_cq, ibv_destroy_cq, DestroyCqName>>;
using Srq = Handle<HandleTraits<ibv_srq, ibv_destroy_srq, DestroySrqName>>;
using Qp = Handle<HandleTraits<ibv_qp, ibv_destroy_qp, DestroyQpName>>;

}  // namespace hbmwire::verbs
