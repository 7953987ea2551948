// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>
#include <unistd.h>

#include <memory>
#include <utility>

/// Handles that destroy the object of libibverbs that they own.
namespace hbmwire::test {

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};

/// ibv_close_xrcd is an inline function, which cannot be a template argument of a type with
/// external linkage.
struct XrcdCloser {
  void operator()(ibv_xrcd* xrcd) const { ibv_close_xrcd(xrcd); }
};

using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using Pd = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using Cq = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using Mr = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using Ah = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;
using Srq = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;
using Xrcd = std::unique_ptr<ibv_xrcd, XrcdCloser>;
using Qp = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;

struct MwDestroyer {
  void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};

using Mw = std::unique_ptr<ibv_mw, MwDestroyer>;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}

  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  ~Fd() { reset(); }

  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace hbmwire::test
