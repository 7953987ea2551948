// SPDX-License-Identifier: MIT
#include "bench/endpoint/raw_end.hpp"

namespace hbmwire::bench {

RawEnd::RawEnd(const Place& place)
    : bytes_(place.bytes),
      in_(place.in()),
      out_(place.out()),
      mr_(bytes_.shared() != nullptr ? node_.register_dmabuf(*bytes_.shared())
                                     : node_.register_private(bytes_.data(), bytes_.size())),
      queue_(node_) {
  const auto begin = reinterpret_cast<std::uint64_t>(bytes_.data());
  place.line.send(queue_.address(begin, mr_->rkey));
  const auto peer = place.line.receive<Address>();
  queue_.connect(peer);
  place.line.send(true);
  place.line.receive<bool>();
  // As large transfers are posted, so are small ones: inlining is an option for host memory alone.
  const auto operation = [&](std::optional<Operation>& made, std::size_t from, std::size_t to) {
    Address target = peer;
    target.memory += to;
    made.emplace(IBV_WR_RDMA_WRITE, element_of(begin + from, sizeof(std::uint64_t), mr_), target,
                 IBV_SEND_SIGNALED);
  };
  operation(word_, out_, in_);
  operation(bulk_, Bytes::kBulk, Bytes::kBulk);
}

}  // namespace hbmwire::bench
