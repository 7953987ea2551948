// SPDX-License-Identifier: MIT
#include "connect/endpoint_wiring.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/node_id.hpp"
#include "connect/link_timing.hpp"
#include "context/path_policy.hpp"
#include "endpoint/endpoint_state.hpp"
#include "transport/verbs/late_lane.hpp"
#include "verbs/link_options.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::detail {

namespace {

// Host memory of up to this length is copied into the request, so that the NIC need not read it:
// two cache lines. More would make each entry of the NIC's send queue larger.
constexpr std::uint32_t kInlineBytes = 128;
// Retries without end, for the control lane: a peer that has not polled for a while has no receive
// left for questions, but it is not gone.
constexpr std::uint8_t kWithoutEnd = 7;

/// The shared receive queue of `pool`; null: each lane has receives of its own.
transport::SharedReceives* queue_of(const ReceivePool* pool) noexcept {
  return pool == nullptr ? nullptr : pool->queue();
}

}  // namespace

Result<void> EndpointWiring::make(std::span<WorkerNic* const> further, bool late) {
  SharedPools pools;
  if (TcpPort::stands_for(*endpoint_.nic)) {
    HBMWIRE_TRY(make_tcp_lanes());
  } else if (late) {
    HBMWIRE_TRY_ASSIGN(pools, make_late_lanes());
    HBMWIRE_TRY(late_.begin(further));
  } else {
    HBMWIRE_TRY_ASSIGN(pools, make_nic_lanes());
    HBMWIRE_TRY_ASSIGN(endpoint_.movers.rails, RailMover::create(endpoint_, further));
  }
  HBMWIRE_TRY(make_buffers());
  HBMWIRE_TRY_ASSIGN(UnexpectedPool* const unexpected,
                     endpoint_.worker->unexpected_of(endpoint_.worker_nic));
  // The control lane comes first: the pool of the data lane then takes as much of the completion
  // queue as it gets.
  const WorkerNic& control_nic = late ? endpoint_.worker->tcp->nic : endpoint_.worker_nic;
  HBMWIRE_TRY(endpoint_.control.make_receives(pools.control, control_nic));
  return endpoint_.messages.make_receives(pools.messages, *unexpected);
}

/// Finds queues for lanes that post `requests`. Without shared receives, the lanes have
/// `own_receives` receives as well.
Result<EndpointWiring::Queues> EndpointWiring::queues_for(std::uint32_t requests,
                                                          std::uint32_t own_receives) {
  WorkerNic& nic = endpoint_.worker_nic;
  const auto sends = static_cast<int>(requests);
  HBMWIRE_TRY_ASSIGN(LaneGroup* const group, endpoint_.worker->group_for(nic, sends));
  if (group != nullptr) {
    return Queues{group->completions, {group->messages.get(), group->control.get()}, sends};
  }
  const int places = sends + static_cast<int>(own_receives);
  HBMWIRE_TRY_ASSIGN(auto* const completions, endpoint_.worker->completions_for(nic, places));
  return Queues{completions, {}, places};
}

Result<EndpointWiring::SharedPools> EndpointWiring::make_nic_lanes() {
  const WorkerNic& nic = endpoint_.worker_nic;
  HBMWIRE_TRY_ASSIGN(const Queues queues,
                     queues_for(endpoint_.options.send_depth + ControlLane::kBuffers,
                                endpoint_.messages.own_receives() + ControlLane::kOwnReceives));
  HBMWIRE_TRY_ASSIGN(auto data_lane,
                     transport::VerbsLane::create(nic.nic, *queues.completions,
                                                  data_lane_options(queues.pools.messages)));
  endpoint_.sends.set_lane(std::move(data_lane));
  HBMWIRE_TRY_ASSIGN(auto control_lane,
                     transport::VerbsLane::create(nic.nic, *queues.completions,
                                                  {.send_depth = ControlLane::kBuffers,
                                                   .receive_depth = ControlLane::kOwnReceives,
                                                   .receives = queue_of(queues.pools.control),
                                                   .link = endpoint_.options.link}));
  endpoint_.control.set_lane(std::move(control_lane));
  return queues.pools;
}

transport::LaneOptions EndpointWiring::data_lane_options(const ReceivePool* pool) const noexcept {
  return {.send_depth = endpoint_.options.send_depth,
          .receive_depth = endpoint_.messages.own_receives(),
          .inline_bytes = kInlineBytes,
          .receives = queue_of(pool),
          .link = endpoint_.options.link};
}

/// Makes lanes without allocating NIC objects for this endpoint alone.
Result<EndpointWiring::SharedPools> EndpointWiring::make_late_lanes() {
  HBMWIRE_TRY_ASSIGN(const Queues queues,
                     queues_for(endpoint_.options.send_depth, endpoint_.messages.own_receives()));
  HBMWIRE_TRY_ASSIGN(auto lane,
                     transport::LateLane::create(endpoint_.worker_nic.nic, *queues.completions,
                                                 queues.places, endpoint_.options.link));
  endpoint_.sends.set_lane(std::move(lane));
  late_messages_ = queues.pools.messages;
  HBMWIRE_TRY(endpoint_.worker->nic_for_tcp());
  make_link(0, 0);  // only the control lane goes by the socket
  return SharedPools{.messages = late_messages_};
}

Result<void> EndpointWiring::make_data_lane() {
  auto& completions =
      static_cast<transport::VerbsCompletionQueue&>(endpoint_.sends.lane().completions());
  HBMWIRE_TRY_ASSIGN(auto lane, transport::VerbsLane::create(endpoint_.worker_nic.nic, completions,
                                                             data_lane_options(late_messages_)));
  endpoint_.sends.set_lane(std::move(lane));
  return endpoint_.messages.take_lane();
}

/// Makes the link of the handshake's socket, with the control lane. 0 requests: no data lane.
void EndpointWiring::make_link(std::uint32_t data_requests, std::uint32_t data_receives) {
  tcp_user_ = std::make_unique<EndpointTcpUser>(*endpoint_.worker->tcp, endpoint_);
  endpoint_.link = tcp_user_->make_link({.data_requests = data_requests,
                                         .data_receives = data_receives,
                                         .control = ControlLane::kOwnReceives});
  endpoint_.control.set_lane(endpoint_.link->make_lane(/*control=*/true));
}

Result<void> EndpointWiring::make_tcp_lanes() {
  if (!admits_tcp(endpoint_.options.paths) || !admits_tcp(endpoint_.worker->context.paths())) {
    return tl::make_unexpected(make_error(
        Errc::permission_denied, Stage::connect,
        "the path policy excludes tcp, by which memory would go, since one end has no RDMA device",
        endpoint_.peer, Hint::path_policy));
  }
  make_link(endpoint_.options.send_depth, endpoint_.messages.own_receives());
  endpoint_.sends.set_lane(endpoint_.link->make_lane(/*control=*/false));
  endpoint_.paths.go_by_tcp();
  return {};
}

/// Allocates the memory that both lanes send from.
Result<void> EndpointWiring::make_buffers() {
  const std::uint64_t size = endpoint_.messages.memory_bytes() + ControlLane::kMemoryBytes;
  HBMWIRE_TRY_ASSIGN(buffers_,
                     NicMemory::make(endpoint_.worker->context, endpoint_.worker_nic, size));
  endpoint_.messages.set_memory(buffers_.bytes, buffers_.local_key);
  endpoint_.control.set_memory(buffers_.bytes + endpoint_.messages.memory_bytes(),
                               buffers_.local_key);
  return {};
}

wire::EndpointOffer EndpointWiring::offer() const {
  wire::EndpointOffer own{.data = endpoint_.sends.lane().local(),
                          .control = endpoint_.control.local(),
                          .reads_in = reads_of(endpoint_.nic->limits.reads_in),
                          .receive_depth = endpoint_.options.receive_depth,
                          .places = endpoint_.messages.places(),
                          .eager_bytes = endpoint_.options.eager_bytes,
                          .node = node_id(),
                          .rails = {},
                          .hello = endpoint_.options.hello};
  if (endpoint_.paths.admits(Path::shared_memory)) own.shares = shares();
  own.nics[0] = endpoint_.worker->place_of(endpoint_.worker_nic);
  if (endpoint_.movers.rails) endpoint_.movers.rails->offer(own);
  if (late_.are_late()) late_.offer(own);
  return own;
}

/// The part of the offer for processes of this node; nothing: they share nothing with this one.
std::optional<wire::EndpointOffer::Shares> EndpointWiring::shares() const {
  const auto name = share_exports(endpoint_.options.peer_timeout);
  if (name) {
    return wire::EndpointOffer::Shares{name->process, name->descriptor,
                                       endpoint_.movers.ring.own_number()};
  }
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log_line(LogLevel::warn, [&] {
      return "processes of this node do not reach this one's host memory by shared memory: " +
             describe(name.error());
    });
  }
  return std::nullopt;
}

/// Where the peer is. If that cannot be told, the answer is two nodes, which promises least.
Placement EndpointWiring::placement_of(const wire::EndpointOffer& theirs) const noexcept {
  if (theirs.data.incarnation == endpoint_.sends.lane().local().incarnation)
    return Placement::same_process;
  if (theirs.node != kUnknownNode && theirs.node == node_id()) return Placement::same_node;
  return Placement::two_nodes;
}

Result<void> EndpointWiring::take_socket(Fd fd) {
  HBMWIRE_TRY(guarded(Stage::connect, [&] { return endpoint_.movers.ring.settle(); }));
  if (endpoint_.link != nullptr) {
    if (const auto traffic_class = endpoint_.options.link.traffic_class)
      HBMWIRE_TRY(wire::set_traffic_class(fd.get(), *traffic_class, endpoint_.peer));
    return endpoint_.link->start(std::move(fd));
  }
  endpoint_.watch.keep_socket(std::move(fd));
  return {};
}

verbs::Wiring EndpointWiring::wiring_on(const NicState& nic,
                                        const wire::EndpointOffer& theirs) const noexcept {
  verbs::Wiring wiring = wiring_by(endpoint_.options);
  wiring.reads_in = reads_of(nic.limits.reads_in);
  wiring.reads_out = std::min(reads_of(nic.limits.reads_out), theirs.reads_in);
  return wiring;
}

Result<void> EndpointWiring::wire_up(const wire::EndpointOffer& theirs) {
  if (!managed_path_) {
    verbs::Wiring wiring = wiring_on(*endpoint_.nic, theirs);
    wiring.local = endpoint_.control.local();
    wiring.remote = theirs.control;
    wiring.receiver_retries = kWithoutEnd;
    endpoint_.control.receives().may_miss_one();
    HBMWIRE_TRY(endpoint_.control.connect(wiring));
  }
  return wire_data(theirs);
}

Result<void> EndpointWiring::wire_data(const wire::EndpointOffer& theirs) {
  verbs::Wiring wiring = wiring_on(*endpoint_.nic, theirs);
  wiring.path = managed_path_;
  // A peer that sends more than it may uses up other lanes' receives until this end has polled. The
  // other peers then wait 164 ms before each retry, so that their retries outlast that. 28 is the
  // code of this time (min_rnr_timer, ibv_modify_qp(3)).
  constexpr std::uint8_t kWithOthers = 28;
  if (endpoint_.messages.receives().are_shared()) wiring.receiver_wait = kWithOthers;
  endpoint_.messages.receives().may_miss_one();
  wiring.local = endpoint_.sends.lane().local();
  wiring.remote = theirs.data;
  // A route may have a smaller MTU than both ports.
  if (managed_path_) wiring.local.mtu_bytes = std::min(wiring.local.mtu_bytes, managed_mtu_bytes_);
  return endpoint_.sends.lane().connect(wiring);
}

Result<void> EndpointWiring::connect(const wire::EndpointOffer& theirs) {
  // Over TCP no NIC takes part, even if the other end has one.
  if (!endpoint_.paths.by_tcp()) {
    HBMWIRE_TRY(verbs::check_link(*endpoint_.nic, endpoint_.sends.lane().local(), theirs.data));
    if (!late_.are_late()) HBMWIRE_TRY(wire_up(theirs));
  }
  endpoint_.remote_regions.set_peer(theirs.data);
  peer_hello_ = theirs.hello;
  endpoint_.paths.set_placement(placement_of(theirs));
  endpoint_.movers.shared.connect(theirs);
  endpoint_.movers.pieces.admit(endpoint_.paths.shares_pieces());
  constexpr std::uint64_t kMostBytes = 1ULL << 30;  // far below the 32 bits of a scatter/gather
                                                    // element's length
  endpoint_.sends.set_most_bytes(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      std::min(endpoint_.sends.lane().local().max_message_bytes, theirs.data.max_message_bytes), 1,
      kMostBytes)));
  endpoint_.messages.connect(theirs.places, theirs.receive_depth, theirs.eager_bytes,
                             endpoint_.movers.ring.longest_message(endpoint_.sends.most_bytes()));
  if (late_.are_late()) late_.connect(theirs);
  if (endpoint_.movers.rails && !endpoint_.movers.rails->connect(theirs))
    endpoint_.movers.rails.reset();
  endpoint_.movers.set_table(endpoint_.paths, *endpoint_.worker_nic.staged);
  endpoint_.watch.note_activity(WorkerState::Clock::now());
  std::vector<std::string> names = rail_names();
  if (!managed_path_) endpoint_.worker->adopt(endpoint_.shared_from_this());
  // From here on the endpoint belongs to the worker, and nothing fails any more.
  set_label(std::move(names));
  return {};
}

std::vector<std::string> EndpointWiring::rail_names() const {
  std::vector<std::string> names;
  if (!endpoint_.movers.rails) return names;
  names.push_back(endpoint_.nic->info.name);
  for (const auto& rail : endpoint_.movers.rails->rails())
    names.push_back(rail->lane->nic().info.name);
  return names;
}

void EndpointWiring::label_rails() {
  endpoint_.worker->labels.find(endpoint_.number)->rails = rail_names();
}

void EndpointWiring::set_label(std::vector<std::string> rails) noexcept {
  EndpointLabel& label = *endpoint_.worker->labels.find(endpoint_.number);
  label.one_node = endpoint_.paths.placement() != Placement::two_nodes;
  label.one_process = endpoint_.paths.placement() == Placement::same_process;
  label.copies = endpoint_.paths.copies();
  label.shares = endpoint_.paths.shares();
  label.shares_first = endpoint_.paths.shares_first();
  label.shares_memory = endpoint_.paths.shares_memory();
  label.not_shared = endpoint_.movers.shared.refusal();
  label.rails = std::move(rails);
}

Result<void> EndpointWiring::wire_control(const transport::CmPath& path) {
  verbs::Wiring wiring = wiring_by(endpoint_.options);
  wiring.local = endpoint_.control.local();
  wiring.path = path.address;
  verbs::apply(endpoint_.options.link, wiring);
  wiring.local.mtu_bytes = wiring.remote.mtu_bytes = path.mtu_bytes;
  wiring.local.packet_sequence = path.send_sequence;
  wiring.remote.packet_sequence = path.receive_sequence;
  wiring.remote.queue_pair = path.remote_queue_pair;
  wiring.receiver_retries = kWithoutEnd;
  endpoint_.control.receives().may_miss_one();
  HBMWIRE_TRY(endpoint_.control.connect(wiring));
  managed_path_ = wiring.path;
  managed_mtu_bytes_ = path.mtu_bytes;
  endpoint_.watch.note_activity(WorkerState::Clock::now());
  endpoint_.worker->adopt(endpoint_.shared_from_this());
  return {};
}

}  // namespace hbmwire::detail
