// SPDX-License-Identifier: MIT
#include "bench/endpoint/fabric_end.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

namespace hbmwire::bench {
namespace {

// The tag of meet()'s messages; FabricEnd's own tags are 1 and 2.
constexpr std::uint64_t kGreeting = 3;

/// Facts for the other side: libfabric's address, and the memory.
struct FabricAddress {
  std::array<std::byte, 256> name{};
  std::uint64_t name_bytes = 0;
  std::uint64_t memory = 0;
  std::uint64_t key = 0;
};

}  // namespace

void FabricEnd::fail_with(const char* call, ssize_t error) {
  throw std::runtime_error(std::string(call) + ": " + fi_strerror(static_cast<int>(-error)));
}

FabricEnd::FabricEnd(const Place& place) : bytes_(place.bytes), in_(place.in()), out_(place.out()) {
  const auto check = [](int result, const char* call) {
    if (result != 0) fail_with(call, result);
  };
  const std::unique_ptr<fi_info, FreeInfo> hints(fi_allocinfo());
  hints->caps = FI_RMA | FI_TAGGED;
  hints->ep_attr->type = FI_EP_RDM;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->fabric_attr->prov_name = ::strdup("verbs;ofi_rxm");
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  fi_info* found = nullptr;
  check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
  info_.reset(found);
  const auto open = [&](auto& handle, const char* call, auto make) {
    typename std::remove_reference_t<decltype(handle)>::pointer made = nullptr;
    check(make(&made), call);
    handle.reset(made);
  };
  open(fabric_, "fi_fabric",
       [&](fid_fabric** made) { return fi_fabric(info_->fabric_attr, made, nullptr); });
  open(domain_, "fi_domain",
       [&](fid_domain** made) { return fi_domain(fabric_.get(), info_.get(), made, nullptr); });
  fi_av_attr addresses{};
  addresses.type = FI_AV_TABLE;
  open(addresses_, "fi_av_open",
       [&](fid_av** made) { return fi_av_open(domain_.get(), &addresses, made, nullptr); });
  fi_cq_attr completions{};
  completions.format = FI_CQ_FORMAT_CONTEXT;
  completions.size = 256;
  open(completions_, "fi_cq_open",
       [&](fid_cq** made) { return fi_cq_open(domain_.get(), &completions, made, nullptr); });
  constexpr std::uint64_t kAccess =
      FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SEND | FI_RECV;
  // The zeros: offset, requested key, flags.
  open(mr_, "fi_mr_reg", [&](fid_mr** made) {
    return fi_mr_reg(domain_.get(), bytes_.data(), bytes_.size(), kAccess, 0, 0, 0, made, nullptr);
  });
  open(endpoint_, "fi_endpoint",
       [&](fid_ep** made) { return fi_endpoint(domain_.get(), info_.get(), made, nullptr); });
  check(fi_ep_bind(endpoint_.get(), &addresses_->fid, 0), "fi_ep_bind");
  check(fi_ep_bind(endpoint_.get(), &completions_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  check(fi_enable(endpoint_.get()), "fi_enable");

  FabricAddress ours;
  std::size_t name_bytes = ours.name.size();
  check(fi_getname(&endpoint_->fid, ours.name.data(), &name_bytes), "fi_getname");
  ours.name_bytes = name_bytes;
  ours.memory = reinterpret_cast<std::uint64_t>(bytes_.data());
  ours.key = fi_mr_key(mr_.get());
  place.line.send(ours);
  const auto theirs = place.line.receive<FabricAddress>();
  if (fi_av_insert(addresses_.get(), theirs.name.data(), 1, &peer_, 0, nullptr) != 1)
    throw std::runtime_error("fi_av_insert");
  peer_memory_ = theirs.memory;
  peer_key_ = theirs.key;
  meet(place.line);
}

/// Sends the first message each way. It makes libfabric connect, for which both sides must make
/// progress.
void FabricEnd::meet(Line& line) {
  std::byte* const page = bytes_.data() + in_;
  unsigned over = 0;
  until_taken([&] {
    return fi_trecv(endpoint_.get(), page, 8, fi_mr_desc(mr_.get()), peer_, kGreeting, 0, nullptr);
  });
  const double deadline = now_ns() + 20e9;
  const auto drive = [&] {
    std::array<fi_cq_entry, 4> entries{};
    const ssize_t count = fi_cq_read(completions_.get(), entries.data(), entries.size());
    if (count < 0 && count != -FI_EAGAIN) fail_with("fi_cq_read", count);
    if (count > 0) over += static_cast<unsigned>(count);
    if (now_ns() > deadline) throw std::runtime_error("libfabric does not connect");
  };
  for (;;) {
    const ssize_t sent = fi_tsend(endpoint_.get(), bytes_.data() + out_, 8, fi_mr_desc(mr_.get()),
                                  peer_, kGreeting, nullptr);
    if (sent == 0) break;
    if (sent != -FI_EAGAIN) fail_with("fi_tsend", sent);
    drive();
  }
  while (over < 2) drive();  // the receive and the send
  line.send(true);
  line.receive<bool>();
  // The greeting came into the word that wait_for_word() reads.
  bytes_.word(in_).store(0, std::memory_order_relaxed);
}

void FabricEnd::read_completions() {
  std::array<fi_cq_entry, 16> entries;
  const ssize_t count = fi_cq_read(completions_.get(), entries.data(), entries.size());
  if (count < 0 && count != -FI_EAGAIN) fail_with("fi_cq_read", count);
  // Receives have the address of received_ as their context, writes and sends have none.
  for (ssize_t i = 0; i < count; ++i)
    ++*(entries[static_cast<std::size_t>(i)].op_context == &received_ ? &received_ : &ended_);
  outstanding_ -= std::exchange(ended_, 0);
}

}  // namespace hbmwire::bench
