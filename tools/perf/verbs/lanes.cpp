// SPDX-License-Identifier: MIT
#include "tools/perf/verbs/lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/low_level/native.hpp"

#include "tools/perf/verbs/states.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr std::uint8_t kHopLimit = 64;  // as in perftest, to allow routers

tl::unexpected<Failure> failed(const Work& work, Stage stage, const char* call) {
  return tl::make_unexpected(
      Failure(system_error(stage, call, errno != 0 ? errno : EIO, work.side.nic.info().name)));
}

Outcome<ibv_gid> read_gid(const Work& work, unsigned index) {
  ibv_gid gid{};
  const NicInfo& nic = work.side.nic.info();
  errno = 0;
  if (ibv_query_gid(native::context(work.side.nic), nic.port, static_cast<int>(index), &gid) == 0) {
    const bool empty = std::ranges::all_of(gid.raw, [](std::uint8_t byte) { return byte == 0; });
    if (!empty) return gid;
  } else if (const Error error = system_error(Stage::open, "ibv_query_gid", errno, nic.name);
             is_shortage(error)) {
    return tl::make_unexpected(Failure(error));
  }
  return fail(fmt::format("configure: {}: port {} has no GID at index {}: `hbmwire info` lists "
                          "those that there are; choose one by -x",
                          nic.name, nic.port, index),
              kExitUsage);
}

unsigned gid_index_of(const Work& work) {
  return work.side.gid_index.value_or(work.side.nic.info().gid_index);
}

std::uint16_t lid_of(const Work& work) {
  ibv_port_attr port{};
  if (ibv_query_port(native::context(work.side.nic), work.side.nic.info().port, &port) != 0)
    return 0;
  return port.lid;
}

ibv_mtu mtu_from_bytes(std::uint32_t bytes) {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

ibv_ah_attr path_to(const Work& work, const wire::PerfQueues& peer) {
  ibv_ah_attr path{};
  path.dlid = peer.first.lid;
  path.sl = work.request.service_level;
  path.port_num = work.side.nic.info().port;
  path.is_global = 1;
  std::ranges::copy(peer.first.gid, std::begin(path.grh.dgid.raw));
  path.grh.sgid_index = static_cast<std::uint8_t>(gid_index_of(work));
  path.grh.hop_limit = kHopLimit;
  path.grh.traffic_class = work.request.traffic_class;
  return path;
}

Outcome<std::uint32_t> choose_mtu(const Work& work) {
  const std::uint32_t both = std::min(work.side.nic.info().mtu_bytes, work.peer.mtu_bytes);
  const std::uint32_t wanted = work.request.mtu_bytes;
  if (wanted == 0) return both;
  if (wanted <= both) return wanted;
  return fail(fmt::format("configure: -m {}: the ports have an MTU of {} and {} bytes: choose a "
                          "smaller one, or raise that of the network",
                          wanted, work.side.nic.info().mtu_bytes, work.peer.mtu_bytes),
              kExitUsage);
}

Outcome<void> check_message(const Work& work, std::uint32_t mtu_bytes) {
  const std::uint64_t size = work.request.size_bytes;
  if (work.request.connection == PerfConnection::ud && size > mtu_bytes) {
    return fail(fmt::format("configure: a datagram has at most the MTU's {} bytes, not {}: choose "
                            "a smaller -s (with -a the MTU is the largest size)",
                            mtu_bytes, size),
                kExitUsage);
  }
  const std::uint64_t most = work.side.nic.info().max_message_bytes;
  if (size <= most) return {};
  return fail(fmt::format("configure: {}: the port carries at most {} bytes in a message, not {}: "
                          "choose a smaller -s",
                          work.side.nic.info().name, most, size),
              kExitUsage);
}

Outcome<void> check_atomics(const Work& work, const ibv_device_attr& device) {
  if (kind_of(work.request.test).verb != Verb::atomic) return {};
  if (device.atomic_cap != IBV_ATOMIC_NONE) return {};
  return fail(fmt::format("open: {}: the device has no atomic operations: use another one, or "
                          "another test",
                          work.side.nic.info().name),
              kExitUnavailable);
}

Outcome<void> check_depth(const Work& work, const ibv_device_attr& device) {
  const PerfRequest& request = work.request;
  const std::uint64_t deepest = std::max(request.tx_depth, request.rx_depth) + kCreditRoom;
  const auto requests = static_cast<std::uint64_t>(device.max_qp_wr);
  const auto completions = static_cast<std::uint64_t>(device.max_cqe);
  if (deepest <= requests && deepest * request.queue_pairs <= completions) return {};
  return fail(fmt::format("configure: {}: a queue pair holds at most {} requests, a completion "
                          "queue {} completions: choose a smaller -t, -r or -q",
                          work.side.nic.info().name, requests, completions),
              kExitUsage);
}

Outcome<CqHandle> create_cq(const Work& work, std::uint64_t depth, ibv_comp_channel* channel) {
  errno = 0;
  CqHandle cq(
      ibv_create_cq(native::context(work.side.nic), static_cast<int>(depth), nullptr, channel, 0));
  if (!cq) return failed(work, Stage::open, "ibv_create_cq");
  return cq;
}

Outcome<QpHandle> create_qp(const Work& work, const Lanes& lanes, std::uint32_t inline_bytes) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = type_of(work.request.connection);
  attributes.send_cq = lanes.send_cq.get();
  attributes.recv_cq = lanes.receive_cq.get();
  attributes.cap = {.max_send_wr = work.request.tx_depth + kCreditRoom,
                    .max_recv_wr = work.request.rx_depth + kCreditRoom,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = inline_bytes};
  errno = 0;
  QpHandle qp(ibv_create_qp(native::protection_domain(work.side.nic), &attributes));
  if (!qp && inline_bytes != 0) {
    return fail(fmt::format("open: {}: no queue pair with {} bytes of inline data and -t {} can be "
                            "made ({}): choose a smaller -I, or -I 0",
                            work.side.nic.info().name, inline_bytes, work.request.tx_depth,
                            std::strerror(errno)),  // NOLINT(concurrency-mt-unsafe)
                kExitUnavailable);
  }
  if (!qp) return failed(work, Stage::open, "ibv_create_qp");
  return qp;
}

Outcome<void> create_queues(const Work& work, Lanes& lanes) {
  const PerfRequest& request = work.request;
  if (request.events) {
    errno = 0;
    lanes.channel.reset(ibv_create_comp_channel(native::context(work.side.nic)));
    if (!lanes.channel) return failed(work, Stage::open, "ibv_create_comp_channel");
  }
  const auto depth = [&](std::uint32_t of_one) {
    return std::uint64_t{of_one + kCreditRoom} * request.queue_pairs;
  };
  HBMWIRE_TRY_ASSIGN(lanes.send_cq, create_cq(work, depth(request.tx_depth), lanes.channel.get()));
  HBMWIRE_TRY_ASSIGN(lanes.receive_cq,
                     create_cq(work, depth(request.rx_depth), lanes.channel.get()));
  return {};
}

std::uint8_t reads_out_of(const Work& work) {
  std::uint32_t most = std::min(reads_of(work.side.nic).out, work.peer.reads_in);
  if (work.request.reads_out != 0) most = std::min(most, work.request.reads_out);
  return static_cast<std::uint8_t>(std::clamp<std::uint32_t>(most, 1, 255));  // one byte holds it
}

Outcome<void> connect_lane(const Work& work, const Lanes& lanes, Lane& lane,
                           const wire::PerfQueues& peer, const wire::PerfQueues::Queue& queue) {
  Route route;
  route.path = path_to(work, peer);
  route.mtu = lanes.route_mtu;
  route.remote_queue = queue.number;
  route.send_sequence = lane.packet_sequence;
  route.receive_sequence = queue.packet_sequence;
  route.reads_out = lanes.reads_out;
  route.reads_in = lanes.reads_in;
  lane.route = route;
  HBMWIRE_TRY(to_ready(work, lane.qp.get(), route));
  lane.remote_queue = queue.number;
  if (work.request.connection != PerfConnection::ud) return {};
  errno = 0;
  lane.path.reset(ibv_create_ah(native::protection_domain(work.side.nic), &route.path));
  if (!lane.path) return failed(work, Stage::connect, "ibv_create_ah");
  return {};
}

}  // namespace

ReadDepths reads_of(const Nic& nic) {
  ibv_device_attr device{};
  if (ibv_query_device(native::context(nic), &device) != 0) return {};
  const auto bounded = [](int depth) {
    // One byte of ibv_qp_attr holds it.
    return static_cast<std::uint32_t>(std::clamp(depth, 1, 255));
  };
  return {bounded(device.max_qp_rd_atom), bounded(device.max_qp_init_rd_atom)};
}

Outcome<Lanes> create_lanes(const Work& work) {
  ibv_device_attr device{};
  if (const int result = ibv_query_device(native::context(work.side.nic), &device); result != 0)
    return tl::make_unexpected(
        system_error(Stage::open, "ibv_query_device", std::abs(result), work.side.nic.info().name));
  HBMWIRE_TRY(check_atomics(work, device));
  HBMWIRE_TRY(check_depth(work, device));
  Lanes lanes;
  lanes.nic = work.side.nic.info().name;
  HBMWIRE_TRY_ASSIGN(lanes.mtu_bytes, choose_mtu(work));
  HBMWIRE_TRY(check_message(work, lanes.mtu_bytes));
  lanes.route_mtu = mtu_from_bytes(lanes.mtu_bytes);
  lanes.reads_out = reads_out_of(work);
  lanes.reads_in = static_cast<std::uint8_t>(reads_of(work.side.nic).in);
  // Inline data would make the CPU read device memory, which it cannot.
  lanes.inline_bytes = work.side.on_device() ? 0 : work.request.inline_bytes;
  HBMWIRE_TRY(create_queues(work, lanes));
  std::random_device random;
  for (std::uint32_t i = 0; i < work.request.queue_pairs; ++i) {
    Lane lane;
    HBMWIRE_TRY_ASSIGN(lane.qp, create_qp(work, lanes, lanes.inline_bytes));
    lane.number = i;
    lane.queue_key = kQueueKey;
    lane.packet_sequence = random() & 0xffffffU;  // 24 bits
    HBMWIRE_TRY(to_init(work, lane.qp.get()));
    lanes.lanes.push_back(std::move(lane));
  }
  return lanes;
}

Outcome<wire::PerfQueues> describe_lanes(const Work& work, const Lanes& lanes) {
  HBMWIRE_TRY_ASSIGN(const ibv_gid gid, read_gid(work, gid_index_of(work)));
  const NicInfo& nic = work.side.nic.info();
  wire::PerfQueues queues;
  std::ranges::copy(gid.raw, queues.first.gid.begin());
  queues.first.lid = lid_of(work);
  queues.first.mtu_bytes = nic.mtu_bytes;
  queues.first.ethernet = nic.ethernet;
  queues.first.max_message_bytes = nic.max_message_bytes;
  // The message requires an incarnation, and these queue pairs have none of their own.
  queues.first.incarnation = 1;
  queues.memory = work.side.buffer.region().remote();
  for (const Lane& lane : lanes.lanes)
    queues.queues.push_back({lane.qp->qp_num, lane.packet_sequence});
  return queues;
}

Outcome<void> renew_lanes(const Work& work, Lanes& lanes) {
  for (Lane& lane : lanes.lanes) {
    HBMWIRE_TRY(to_reset(work, lane.qp.get()));
    HBMWIRE_TRY(to_init(work, lane.qp.get()));
    HBMWIRE_TRY(to_ready(work, lane.qp.get(), lane.route));
    lane.posted = lane.completed = lane.receives_posted = lane.receives_taken = 0;
    lane.credits_posted = lane.credits_done = 0;
  }
  // The change to RESET should also remove the queue pair's completions, but not all drivers do
  // that.
  ibv_wc left{};
  for (ibv_cq* const cq : {lanes.send_cq.get(), lanes.receive_cq.get()}) {
    while (ibv_poll_cq(cq, 1, &left) > 0) {
    }
  }
  return {};
}

Outcome<void> connect_lanes(const Work& work, Lanes& lanes, const wire::PerfQueues& peer) {
  if (peer.queues.size() != lanes.lanes.size() ||
      peer.memory.length_bytes < work.side.layout.total_bytes()) {
    return fail(
        fmt::format("connect: {}: the peer has {} queue pairs and {} bytes where {} and {} "
                    "were agreed on: are both of one version?",
                    work.session.peer(), peer.queues.size(), peer.memory.length_bytes,
                    lanes.lanes.size(), work.side.layout.total_bytes()));
  }
  if (peer.first.ethernet != work.side.nic.info().ethernet) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::connect,
                   "one side's port is Ethernet (RoCE), the other's InfiniBand", lanes.nic,
                   Hint::qp_attributes));
  }
  if (work.request.rdma_cm) return {};
  for (std::size_t i = 0; i < lanes.lanes.size(); ++i)
    HBMWIRE_TRY(connect_lane(work, lanes, lanes.lanes[i], peer, peer.queues[i]));
  return {};
}

}  // namespace hbmwire::tools::perf
