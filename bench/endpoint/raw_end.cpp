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
  peer_ = place.line.receive<Address>();
  const Address& peer = peer_;
  queue_.connect(peer);
  // Waits until the peer is connected, too.
  place.line.send(true);
  place.line.receive<bool>();
  // Small transfers are posted like large ones: inlining is only possible for host memory.
  const auto operation = [&](std::optional<Operation>& made, std::size_t from, std::size_t to) {
    Address target = peer;
    target.memory += to;
    made.emplace(IBV_WR_RDMA_WRITE, element_of(begin + from, sizeof(std::uint64_t), mr_), target,
                 IBV_SEND_SIGNALED);
  };
  operation(word_, out_, in_);
  operation(bulk_, Bytes::kBulk, Bytes::kBulk);
}

void RawEnd::make_list() {
  if (!list_.empty()) return;
  list_elements_.resize(kBlocks);
  list_.resize(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t at = Bytes::kBulk + i * kBlockStride;
    list_elements_[i] =
        element_of(reinterpret_cast<std::uint64_t>(bytes_.data()) + at, kBlockBytes, mr_);
    ibv_send_wr& request = list_[i];
    request.sg_list = &list_elements_[i];
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = peer_.memory + at;
    request.wr.rdma.rkey = peer_.rkey;
    const bool last = (i + 1) % kWindow == 0;
    request.send_flags = last ? unsigned{IBV_SEND_SIGNALED} : 0U;
    request.next = last ? nullptr : &request + 1;
  }
}

void RawEnd::post_list(std::size_t first, unsigned& chains) {
  while (chains == 2) chains -= queue_.poll_sends();
  queue_.post(list_[first]);
  ++chains;
}

void RawEnd::run_lists(unsigned count) {
  make_list();
  for (; count != 0; --count) {
    unsigned chains = 0;
    for (std::size_t first = 0; first < kBlocks; first += kWindow) post_list(first, chains);
    queue_.wait_sends(chains);
  }
}

void RawEnd::run_pairs(unsigned count) {
  make_list();
  const std::uint64_t here = reinterpret_cast<std::uint64_t>(bytes_.data()) + Bytes::kBulk;
  const std::uint64_t there = peer_.memory + Bytes::kBulk;
  for (; count != 0; --count) {
    unsigned chains = 0;
    for (std::size_t first = 0; first < kBlocks; first += kWindow) {
      for (std::size_t i = first; i < first + kWindow; ++i) {
        list_elements_[i].addr = here + pairs_.here[i] * kBlockBytes;
        list_[i].wr.rdma.remote_addr = there + pairs_.there[i] * kBlockBytes;
      }
      post_list(first, chains);
    }
    queue_.wait_sends(chains);
  }
}

}  // namespace hbmwire::bench
