// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "transport/verbs/lane_datapath.hpp"

namespace hbmwire::transport {

/// Posts `receives` by calls of `post(first, bad)`: ibv_post_recv(3) or ibv_post_srq_recv(3).
template <class Post>
int post_in_batches(std::span<const Receive> receives, std::size_t& posted,
                    const Post& post) noexcept {
  constexpr std::size_t kBatch = 8;
  std::array<ibv_sge, kBatch> elements;
  std::array<ibv_recv_wr, kBatch> requests;
  posted = 0;
  while (posted != receives.size()) {
    const auto batch = receives.subspan(posted, std::min(kBatch, receives.size() - posted));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      elements[i] = to_sge(batch[i].memory);
      requests[i].next = i + 1 < batch.size() ? &requests[i + 1] : nullptr;
      requests[i].wr_id = batch[i].id;
      requests[i].sg_list = &elements[i];
      requests[i].num_sge = 1;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int result = post(requests.data(), &bad); result != 0) {
      // The receives before the refused one are posted, and will complete.
      if (bad != nullptr) posted += static_cast<std::size_t>(bad - requests.data());
      return result;
    }
    posted += batch.size();
  }
  return 0;
}

}  // namespace hbmwire::transport
