// SPDX-License-Identifier: MIT
#include "transport/verbs/connection_state.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "registration/region_state.hpp"
#include "verbs/calls.hpp"
#include "verbs/link_options.hpp"
#include "verbs/queue_pair.hpp"

namespace hbmwire::detail {

namespace {

Completion::Kind kind_of(ibv_wc_opcode opcode) noexcept {
  switch (opcode) {
    case IBV_WC_RDMA_WRITE:
      return Completion::Kind::write;
    case IBV_WC_RDMA_READ:
      return Completion::Kind::read;
    case IBV_WC_RECV:
      return Completion::Kind::receive;
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return Completion::Kind::receive_write_immediate;
    default:
      return Completion::Kind::send;
  }
}

Completion to_completion(const ibv_wc& wc) noexcept {
  Completion done;
  done.id = wc.wr_id;
  done.kind = kind_of(wc.opcode);
  done.length_bytes = wc.byte_len;
  done.has_immediate = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  if (done.has_immediate) done.immediate = ntohl(wc.imm_data);
  return done;
}

}  // namespace

Result<ibv_sge> ConnectionState::to_sge(const Slice& slice, const char* call) const {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::post));
  if (slice.length_bytes == 0) return ibv_sge{};
  const RegionState& region = state_of(*slice.region);
  const std::uint64_t size = region.allocation.size_bytes();
  if (slice.offset_bytes > size || slice.length_bytes > size - slice.offset_bytes ||
      slice.length_bytes > kMaxMessageBytes) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::post, call, "slice outside its region"));
  }
  const auto local_key = region.local_key(*nic);
  if (!local_key) {
    return tl::make_unexpected(make_error(
        Errc::invalid_argument, Stage::post,
        "the slice's region is not registered with this connection's NIC", nic->info.name));
  }
  return ibv_sge{.addr = region.address() + slice.offset_bytes,
                 .length = static_cast<std::uint32_t>(slice.length_bytes),
                 .lkey = *local_key};
}

Result<std::unique_ptr<ConnectionState>> ConnectionState::create(
    const Nic& nic, const Connection::Options& options) {
  HBMWIRE_TRY(verbs::check_process(state_of(nic), Stage::open));
  auto state = std::make_unique<ConnectionState>();
  state->nic = state_of(nic).shared_from_this();
  NicState& device = *state->nic;
  const std::string& name = device.info.name;
  ibv_context* context = device.context.get();
  const auto most = static_cast<std::uint32_t>(std::max(device.limits.requests, 1));
  const bool none = options.send_depth == 0 && options.receive_depth == 0;
  if (none || options.send_depth > most || options.receive_depth > most) {
    return tl::make_unexpected(make_error(
        Errc::invalid_argument, Stage::configure,
        "a connection has requests or receives, and no more than its NIC has (max_qp_wr)", name));
  }
  HBMWIRE_TRY(verbs::check_range(options.link));
  HBMWIRE_TRY_ASSIGN(state->entries, verbs::port_entries(device, options.link));
  state->link = options.link;
  HBMWIRE_TRY_ASSIGN(state->channel, verbs::from_pointer<verbs::CompletionChannel>(
                                         ibv_create_comp_channel(context), Stage::open,
                                         "ibv_create_comp_channel", name));
  const auto depth = static_cast<int>(std::uint64_t{options.send_depth} + options.receive_depth);
  HBMWIRE_TRY_ASSIGN(
      state->cq,
      verbs::from_pointer<verbs::Cq>(
          ibv_create_cq(context, depth, nullptr, state->channel.get(), 0), Stage::open,
          "ibv_create_cq", verbs::with_limit(device, "max_cq", device.limits.completion_queues),
          Hint::queue_pair_limit));
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = state->cq.get();
  attributes.recv_cq = state->cq.get();
  // No inline data: the CPU would have to read the data, which may be in device memory.
  attributes.cap = {.max_send_wr = options.send_depth,
                    .max_recv_wr = options.receive_depth,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  HBMWIRE_TRY_ASSIGN(
      state->qp,
      verbs::from_pointer<verbs::Qp>(
          ibv_create_qp(device.pd.get(), &attributes), Stage::open, "ibv_create_qp",
          verbs::with_limit(device, "max_qp", device.limits.queue_pairs), Hint::queue_pair_limit));
  HBMWIRE_TRY(verbs::to_init(device, state->qp.get(), Access::remote_write | Access::remote_read,
                             state->entries.pkey_index));
  state->local = verbs::local_address(device, state->qp.get(), state->entries);
  return state;
}

ConnectionState::~ConnectionState() {
  // Unacknowledged events would make ibv_destroy_cq wait for ever (ibv_get_cq_event(3)). A child by
  // fork(2) does not call it, and must not take this lock, which a thread of the parent may have
  // held.
  if (cq && !cq.is_inherited() && unacknowledged_events != 0)
    ibv_ack_cq_events(cq.get(), unacknowledged_events);
}

Result<void> ConnectionState::connect(const ConnectionAddress& to) {
  HBMWIRE_TRY(verbs::check_link(*nic, local, to));
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::connect));
  verbs::Wiring wiring{.local = local, .remote = to};
  verbs::apply(link, wiring);
  HBMWIRE_TRY(verbs::to_ready(*nic, qp.get(), wiring));
  const std::uint64_t smaller = std::min(local.max_message_bytes, to.max_message_bytes);
  max_message_bytes = std::clamp<std::uint64_t>(smaller, 1, kMaxMessageBytes);
  remote = to;
  return {};
}

Result<void> ConnectionState::post(const Work& work) const {
  HBMWIRE_TRY_ASSIGN(ibv_sge sge, to_sge(work.slice, work.call));
  if (work.opcode == IBV_WR_RDMA_READ) HBMWIRE_TRY(check_writable(work.slice, nic->info.name));
  ibv_send_wr request{};
  request.wr_id = work.id;
  request.sg_list = &sge;
  request.num_sge = sge.length != 0 ? 1 : 0;
  request.opcode = work.opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(work.immediate);
  request.wr.rdma.remote_addr = work.remote.address;
  request.wr.rdma.rkey = work.remote.remote_key;
  ibv_send_wr* bad = nullptr;
  return verbs::from_errno_result(ibv_post_send(qp.get(), &request, &bad), Stage::post, work.call,
                                  nic->info.name);
}

Result<std::optional<Completion>> ConnectionState::poll() const {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::complete));
  ibv_wc wc{};
  const int count = ibv_poll_cq(cq.get(), 1, &wc);
  if (count < 0) {
    return tl::make_unexpected(system_error(Stage::complete, "ibv_poll_cq", EIO, nic->info.name));
  }
  if (count == 0) return std::nullopt;
  if (wc.status != IBV_WC_SUCCESS)
    return tl::make_unexpected(verbs::completion_error(wc.status, nic->info.name));
  return to_completion(wc);
}

Result<void> ConnectionState::take_event() {
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  HBMWIRE_TRY(verbs::from_minus_one(ibv_get_cq_event(channel.get(), &event_cq, &event_context),
                                    Stage::complete, "ibv_get_cq_event", nic->info.name));
  // Acknowledging takes a mutex, so it is done only every 64 events (ibv_get_cq_event(3)).
  constexpr unsigned kAcknowledgeEvery = 64;
  if (++unacknowledged_events == kAcknowledgeEvery) {
    ibv_ack_cq_events(cq.get(), unacknowledged_events);
    unacknowledged_events = 0;
  }
  armed = false;
  return {};
}

Result<void> ConnectionState::arm() {
  if (armed) return {};
  HBMWIRE_TRY(verbs::from_errno_result(ibv_req_notify_cq(cq.get(), 0), Stage::complete,
                                       "ibv_req_notify_cq", nic->info.name));
  armed = true;
  return {};
}

Result<bool> ConnectionState::sleep(const Wait& wait, int also_fd) const {
  std::array<pollfd, 3> fds{pollfd{channel.get()->fd, POLLIN, 0}, pollfd{also_fd, POLLIN, 0},
                            pollfd{wait.cancel_fd, POLLIN, 0}};
  int ready = 0;
  do {
    ready = ::poll(fds.data(), fds.size(), wait.deadline.poll_timeout_ms());
    if (ready < 0 && errno != EINTR) {
      return tl::make_unexpected(system_error(Stage::complete, "poll", errno, nic->info.name));
    }
  } while (ready <= 0 && !wait.deadline.passed());
  if (ready <= 0) {
    return tl::make_unexpected(make_error(Errc::timed_out, Stage::complete,
                                          "no completion within the time allowed", nic->info.name,
                                          Hint::peer_slow));
  }
  if (fds[0].revents != 0) return true;
  if (fds[2].revents == 0) return false;  // `also_fd` alone is readable
  return tl::make_unexpected(
      make_error(Errc::cancelled, Stage::complete, "waiting for a completion", nic->info.name));
}

}  // namespace hbmwire::detail
