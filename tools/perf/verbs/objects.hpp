// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace hbmwire::tools::perf {

template <auto kDestroy>
struct Destroyer {
  template <class T>
  void operator()(T* object) const noexcept {
    // If an object cannot be destroyed, the kernel releases it when the process ends, which is
    // soon.
    static_cast<void>(kDestroy(object));
  }
};

using ChannelHandle = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using CqHandle = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using QpHandle = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using AhHandle = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;

}  // namespace hbmwire::tools::perf
