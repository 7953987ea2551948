// SPDX-License-Identifier: MIT
#include "transport/verbs/shared_receives.hpp"

#include <algorithm>
#include <utility>

#include "transport/verbs/post_receives.hpp"
#include "verbs/calls.hpp"

namespace hbmwire::transport {

Result<std::unique_ptr<SharedReceives>> SharedReceives::create(
    std::shared_ptr<detail::NicState> nic, std::uint32_t depth) {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::open));
  const auto most = static_cast<std::uint32_t>(std::max(nic->limits.shared_receives, 1));
  ibv_srq_init_attr attributes{};
  attributes.srq_context = verbs::shared_receives_mark();
  attributes.attr = {.max_wr = std::min(depth, most), .max_sge = 1, .srq_limit = 0};
  depth = attributes.attr.max_wr;
  HBMWIRE_TRY_ASSIGN(auto srq,
                     verbs::from_pointer<verbs::Srq>(
                         ibv_create_srq(nic->pd.get(), &attributes), Stage::open, "ibv_create_srq",
                         verbs::with_limit(*nic, "max_srq", nic->limits.shared_queues)));
  return std::unique_ptr<SharedReceives>(new SharedReceives(std::move(nic), std::move(srq), depth));
}

int SharedReceives::post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept {
  return post_in_batches(receives, posted, [this](ibv_recv_wr* first, ibv_recv_wr** bad) {
    return ibv_post_srq_recv(srq_.get(), first, bad);
  });
}

}  // namespace hbmwire::transport
