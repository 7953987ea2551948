// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"

#include "base/told_cause.hpp"
#include "connect/cm_link.hpp"
#include "endpoint/control_lane.hpp"
#include "endpoint/ending.hpp"
#include "endpoint/path_rules.hpp"
#include "endpoint/peer_watch.hpp"
#include "endpoint/remote_regions.hpp"
#include "endpoint/request_state.hpp"
#include "endpoint/send_queue.hpp"
#include "endpoint/tcp_link.hpp"
#include "endpoint/transfer_state.hpp"
#include "endpoint/worker_state.hpp"
#include "message/mailbox.hpp"
#include "mover/rail_mover.hpp"
#include "mover/shared_pieces.hpp"
#include "registration/region_state.hpp"
#include "transport/lane_datapath.hpp"
#include "wire/control_messages.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

/// One end of a connection. What the data path touches comes first.
struct EndpointState : SendQueue, std::enable_shared_from_this<EndpointState> {
  using Clock = WorkerState::Clock;

  // --- life (endpoint_life.cpp)

  /// Its lanes lie on the first of `nics`, its rails on the others.
  static Result<std::shared_ptr<EndpointState>> create(const std::shared_ptr<WorkerState>& worker,
                                                       const EndpointOptions& options,
                                                       std::span<WorkerNic* const> nics);
  EndpointState(WorkerState& worker_of, WorkerNic& nic_of, EndpointOptions options_of);
  EndpointState(const EndpointState&) = delete;
  EndpointState& operator=(const EndpointState&) = delete;
  ~EndpointState();

  Result<void> make_nic_lanes(std::uint32_t receives);
  Result<void> make_tcp_lanes(std::uint32_t receives);
  Result<void> make_buffers(std::uint32_t receives);
  [[nodiscard]] wire::EndpointOffer offer() const;
  [[nodiscard]] Placement placement_of(const wire::EndpointOffer& theirs) const noexcept;

  /// Wires the control lane up alone; the worker's from here on. Errors: Stage::connect.
  Result<void> wire_control(const transport::CmPath& path);

  /// The socket that the handshake went by, from here on the endpoint's. Errors: Stage::connect.
  Result<void> take_socket(Fd fd);

  Result<void> wire_up(const wire::EndpointOffer& theirs);

  /// What both ends' offers say of a lane on `nic`; the addresses are left open.
  [[nodiscard]] verbs::Wiring wiring_on(const NicState& on,
                                        const wire::EndpointOffer& theirs) const noexcept;

  /// Wires both lanes up, or the data lane alone. Errors: Stage::connect.
  Result<void> connect(const wire::EndpointOffer& theirs);

  /// Breaks the connection: from here on it is ending. `culprit` (or null) fails with `error`, the
  /// others because of it.
  void fail(const Error& error, TransferState* culprit) noexcept;

  /// Fails what waits, for room or for the peer.
  void fail_waiting() noexcept;

  /// Nothing that is posted completes any more.
  void forget_posted() noexcept;

  /// Operations of the application are not over.
  [[nodiscard]] bool is_busy() const noexcept;

  /// Something is under way that only the peer's process can end.
  [[nodiscard]] bool waits_for_peer() const noexcept;

  [[nodiscard]] Error not_ready() const noexcept { return ending.not_ready(); }

  /// Goes on with ending, and with what the clock asks for. When it wants to be called next.
  Clock::time_point look_after(Clock::time_point at) noexcept;
  [[nodiscard]] Clock::time_point next_look(Clock::time_point at) const noexcept;

  /// The completion queue is of no use any more.
  void on_lost(const transport::CompletionQueue& queue) noexcept;

  /// The application has let go of it, and nothing of it is in any queue: it can be destroyed.
  [[nodiscard]] bool gone() const noexcept {
    return ending.is_over() && outstanding() == 0 && moving == 0 && receives_posted == 0 &&
           control.is_drained();
  }

  // --- one-sided operations (endpoint_datapath.cpp)

  Result<Transfer> put(const Slice& from, const RemoteSlice& to, const PutOptions& put_options);
  Result<Transfer> get(const Slice& into, const RemoteSlice& from);
  Result<Transfer> atomic(const RemoteSlice& at, transport::Operation operation);
  Result<Transfer> flush();

  [[nodiscard]] Error no_transfer_left() const noexcept;
  Result<void> check_reach(const RegionState& region) const;

  /// Into `operation`, what the NIC is to be told of either end's memory.
  Result<void> set_local(transport::Operation& operation, const Slice& slice) const;
  Result<void> set_remote(transport::Operation& operation, const RemoteSlice& slice,
                          Access needed) const;

  // For endpoint_datapath.cpp alone, in line there. `copied`: by an engine, without a NIC.
  [[gnu::always_inline]] inline Result<void> local_of(transport::Operation& operation,
                                                      const Slice& slice, bool copied) const;
  [[gnu::always_inline]] inline Result<void> remote_of(transport::Operation& operation,
                                                       const RemoteSlice& slice, Access needed,
                                                       bool copied) const;
  [[gnu::always_inline]] inline int post_now(const transport::Operation& operation,
                                             TransferState* transfer) noexcept;

  /// All but the protocol; null: there is no such memory, or it is not known.
  void set_route(Route& way, const RegionState* local,
                 const RemoteRegionState* remote_region) const noexcept {
    const Path at_peer = remote_region == nullptr ? Path::host : remote_region->path;
    const Path here = local == nullptr ? Path::host : local->path;
    way.connection = number;
    way.record = local == nullptr ? std::uint16_t{0} : local->record;
    way.remote =
        remote_region == nullptr ? kUnknownRemote : remote_side(remote_region->type, at_peer);
    way.path = std::max(here, at_peer);
  }

  /// What a message tells the peer of this side's memory, and what the peer's told.
  [[nodiscard]] static RemoteSide own_side(const TransferState& transfer) noexcept {
    if (transfer.region == nullptr) return remote_side(MemoryType::host, Path::host);
    const Path path = transfer.path == Path::staged ? transfer.path
                                                    : std::min(transfer.region->path, Path::staged);
    return remote_side(transfer.region->paths->type, path);
  }

  /// Whether its memory is a device's that NICs write, so that it has to be flushed.
  [[nodiscard]] bool is_device(const TransferState& transfer) const noexcept {
    return transfer.region != nullptr && transfer.region->path != Path::host &&
           !paths.is_staged(transfer.region->path);
  }

  /// Whether its memory is a device's that this end's NIC does not reach.
  [[nodiscard]] bool is_staged(const TransferState& transfer) const noexcept {
    return transfer.region != nullptr && paths.is_staged(transfer.region->path);
  }

  /// Who moves what is staged at either end (asked.cpp). Errors: there is no room for it.
  Result<void> stage(TransferState& transfer, const Slice& here, const RemoteRegionState& there);

  /// Whether an engine of this process carries what goes between the two (copy_datapath.cpp).
  [[nodiscard]] bool is_copied(const Slice& here, const RemoteSlice& there) const;

  /// Has CopyMover move `operation`.
  void copy(TransferState& transfer, transport::Operation& operation, const Slice& here,
            const RemoteSlice& there, Path by = Path::copy) const;

  /// Whether a transfer that is not of the data lane waits for a fence; `own`: of `moving`, its
  /// own.
  [[nodiscard]] bool fence_holds_back(std::uint32_t own) noexcept;

  /// Whether bytes may be copied as a request is posted: no get before a fence still brings them.
  [[nodiscard]] bool may_be_copied() const noexcept { return gave_back_before(fence_place); }

  /// Of a NIC's write to memory that engines copy, too.
  void note_write(const RemoteRegionState& region) noexcept;

  /// Whether an engine can be made to see what the NIC has written to `region`.
  [[nodiscard]] bool can_be_flushed(const RemoteRegionState& region) const noexcept;

  /// Whether the NIC wrote to such memory before `transfer` was started, so that it has to be
  /// flushed; and that.
  [[nodiscard]] bool wrote_before_copy(const TransferState& transfer) const noexcept;
  int post_flush(TransferState& transfer) noexcept;
  /// A remote region of this process that an engine copies to or from; nothing: it is none.
  [[nodiscard]] std::optional<RemoteRegionState> in_process(const MemoryKeyInfo& key) const;

  /// True: it is over, and finish() of the mover is to be called.
  bool go_on_copied(TransferState& transfer) noexcept;
  bool go_on_staged(TransferState& transfer) noexcept;

  // --- between processes of a node (ipc_datapath.cpp)

  /// Whether memory of the peer's, reached by `path` else, may be copied by its engine or CPU.
  [[nodiscard]] bool may_share(MemoryType type, Path path) const noexcept;
  [[nodiscard]] bool peer_moves(Path path) const noexcept;

  /// Whether the peer is asked to open `here` and copy.
  [[nodiscard]] bool is_shared(const Slice& here, const RemoteSlice& there) const;
  [[nodiscard]] bool is_ipc_wanted(std::uint64_t bytes, MemoryType type,
                                   const RemoteRegionState& distant) const;
  [[nodiscard]] bool has_other_route(const RegionState& here, const RemoteRegionState& there) const;

  /// Has that tried first, and what was settled otherwise.
  void share(TransferState& transfer, transport::Operation& operation, const Slice& here,
             const RemoteSlice& there) const;
  void fall_back(TransferState& transfer, const Error& why) noexcept;

  [[nodiscard]] std::uint32_t next_ipc_copy() noexcept { return ++ipc_copies; }

  /// Whether the peer was asked for a copy, and has not answered.
  [[nodiscard]] bool asks_for_ipc() const noexcept;

  /// Whether the peer's engine touches nothing of this end's any more, or that can't be waited for.
  [[nodiscard]] bool no_ipc_goes_on(Clock::time_point at) const noexcept;

  // --- what the peer's process moves, and what ours moves for it (asked.cpp)

  /// Errors: `region` is not this connection's, or not for what needs this access.
  Result<void> check_proxied(const RemoteRegionState& region, Access needed) const;

  [[nodiscard]] bool may_ask() const noexcept {
    return room() >= 2 && mail.credits.may_send() && !mail.sent.full();
  }

  /// Asks the peer's process for what `part` says, whose memory here it may reach by `remote_key`:
  /// Slots' id. 0: the endpoint has failed.
  std::uint32_t ask(TransferState& transfer, const transport::Operation& part,
                    std::uint32_t remote_key) noexcept;

  /// True: it is over, and finish_proxied() is to be called.
  bool go_on_proxied(TransferState& transfer) noexcept;
  void finish_proxied(TransferState& transfer) noexcept;
  void begin_asking(TransferState& transfer) noexcept;
  [[nodiscard]] Result<std::uint32_t> key_for_peer(TransferState& transfer);
  void on_proxied(TransferState& transfer, const wire::MessageHeader& answer) noexcept;

  /// The immediate of a put whose bytes no NIC has carried, and are there. False: there is no room
  /// or no credit yet, or the endpoint has failed.
  bool post_immediate(TransferState& transfer) noexcept;

  [[nodiscard]] Error refusal_of(wire::MessageHeader::Outcome outcome) const noexcept;

  /// Whether the peer has asked for something that is not over.
  [[nodiscard]] bool serves() const noexcept { return serving != 0 || !to_serve.empty(); }

  void on_request(const wire::MessageHeader& header, std::uint64_t at) noexcept;
  void answer_request(std::uint32_t id, wire::MessageHeader::Outcome outcome,
                      std::uint64_t length) noexcept;

  /// StagedMover has nothing of it for the peer any more.
  void on_moved_for_peer() noexcept;

  static void learn_remote(TransferState& transfer, RemoteSide side) noexcept {
    transfer.remote = side;
    transfer.path = std::max(transfer.path, path_of(side));
  }

  /// Posts `operation`, or queues what there is no room for.
  [[gnu::always_inline]] inline Result<Transfer> start(transport::Operation& operation,
                                                       TransferState& transfer) noexcept;

  /// Posts one message of it at once; `errno` of ibv_post_send(3). Where the endpoint has failed by
  /// it, a part is under way, and the transfer ends with the endpoint.
  int post(const transport::Operation& operation, TransferState* transfer) noexcept;
  int post_flushed(const transport::Operation& operation, TransferState* transfer) noexcept;

  /// Counts in what ibv_post_send(3) took, whose last request is signaled, and which has its place.
  void count_in(std::uint32_t count, TransferState* transfer) noexcept;

  /// ibv_post_send(3) took some of `posted`, but not its `last` request, which would tell that all
  /// of it is over: the endpoint fails.
  void fail_midway(Posted& posted, TransferState* transfer, int result) noexcept;

  void post_last_of(Posted& posted) noexcept;
  void wait_in_queue(TransferState& transfer) noexcept;

  /// Posts what there is room for of those that wait.
  void post_waiting() noexcept;

  /// A request of the data lane has completed.
  void on_posted(Posted& posted) noexcept;

  /// One of its requests has; `last`: this one, so that all of them are over.
  void on_failed(const Posted& posted, const transport::Completion& completion, bool last) noexcept;
  void note_failure(const transport::Completion& completion, TransferState* transfer) noexcept;
  void give_up(TransferState* transfer) noexcept;

  /// Posts what is left of a transfer that waits. False: there is no room or no credit yet.
  bool post_rest(TransferState& transfer) noexcept;
  bool post_pieces(TransferState& transfer) noexcept;

  /// The last part of a transfer is over, but the transfer is not.
  void go_on(TransferState& transfer) noexcept;

  // --- messages (mailbox_life.cpp)

  Result<void> make_mailbox(std::byte* headers, std::byte* unexpected_pool,
                            std::uint32_t pool_units);
  Result<void> post_receives();

  /// They end with the endpoint: what waits for a message or an answer fails, and what
  /// was opened to the peer is closed.
  void mark_messages_failed() noexcept;

  /// Receives that nothing has matched fail at once: the peer has said goodbye, or this end has.
  void fail_receives(const Error& why) noexcept;

  /// Ends one that nothing has matched. False: it is under way.
  bool cancel_receive(TransferState& transfer, const Error& why) noexcept;

  /// Says what the data path may not.
  void warn_of_copies() noexcept;

  // --- coming messages (message_datapath.cpp, receive_datapath.cpp)

  void on_message(MessageBuffer& buffer, const transport::Completion& completion) noexcept;
  void on_immediate(std::uint32_t value, std::uint32_t bytes) noexcept;
  void on_arrived(const wire::MessageHeader& header, MessageBuffer& buffer) noexcept;
  void on_clear(const wire::MessageHeader& header) noexcept;
  void on_finished(const wire::MessageHeader& header) noexcept;
  void on_written(const wire::MessageHeader& header) noexcept;
  void refuse_message(const char* why) noexcept;
  void repost(MessageBuffer& buffer) noexcept;
  void repost_all() noexcept;
  void owe() noexcept;

  Result<Transfer> receive(const Slice& into, bool tagged, const TagMatch& match);
  Result<Transfer> receive_immediate(const Slice& written);
  [[nodiscard]] Result<TransferState*> new_receive(const Slice& into);
  [[nodiscard]] Transfer hand_out(TransferState& transfer) noexcept;

  /// Keeps a message that has no receive.
  void keep(const wire::MessageHeader& header, MessageBuffer& buffer) noexcept;

  /// `transfer` takes the message; `buffer` or `record` holds it, and is given back when its bytes
  /// were taken.
  void deliver(TransferState& transfer, const wire::MessageHeader& header, MessageBuffer* buffer,
               UnexpectedMessage* record) noexcept;
  void carry_to_device(TransferState& transfer, const wire::MessageHeader& header,
                       MessageBuffer* buffer, UnexpectedMessage* record) noexcept;
  void release(UnexpectedMessage& record) noexcept;
  void take_immediate(TransferState& transfer, const Immediate& immediate) noexcept;

  // --- rendezvous (rendezvous_datapath.cpp)

  void pull(TransferState& transfer, const wire::MessageHeader& header) noexcept;
  void ask_to_write(TransferState& transfer, const wire::MessageHeader& header) noexcept;
  /// What tells the sender of a message how it ended here.
  [[nodiscard]] static wire::MessageHeader finished(const TransferState& transfer,
                                                    wire::MessageHeader::Outcome outcome) noexcept;
  void end_alone(TransferState& transfer, const Error& why) noexcept;

  /// What LoopbackMover had to do is done.
  void on_moved(TransferState& transfer) noexcept;

  /// Not on the data path: a registration for this transfer alone.
  Result<std::uint32_t> open_to_peer(TransferState& transfer) noexcept;
  [[nodiscard]] Result<std::unique_ptr<MemoryKeyState>> open_part(const TransferState& transfer,
                                                                  Access access) const;
  [[nodiscard]] std::uint32_t remote_key_of(const MemoryKeyState& key) const noexcept;

  // --- going messages (send_datapath.cpp)

  Result<Transfer> send(const Slice& from, bool tagged, std::uint64_t tag,
                        const SendOptions& send_options);
  bool post_send(TransferState& transfer) noexcept;
  [[nodiscard]] wire::MessageHeader header_of(TransferState& transfer) noexcept;

  /// One SEND of `header`, and of what `payload` says if it is not null; `errno` of
  /// ibv_post_send(3). The header gets what is owed.
  int post_message(wire::MessageHeader header, const transport::Operation* payload,
                   TransferState* transfer) noexcept;

  /// Without a credit, as soon as there is room.
  void answer(const wire::MessageHeader& header) noexcept;
  void go_urgently(TransferState& transfer) noexcept;
  void post_pressing() noexcept;
  bool post_urgent() noexcept;

  // --- prepared transfers (prepared.cpp, prepared_datapath.cpp)

  Result<std::unique_ptr<RequestState>> prepare(std::span<const TransferPart> parts, bool put,
                                                const PutOptions& put_options);
  Result<Transfer> post(RequestState& request);
  bool post_chunks(TransferState& transfer) noexcept;
  void forget_requests() noexcept;

  /// Of a prepared get into several devices. False: all are flushed.
  bool post_next_flush(TransferState& transfer) noexcept;

  // --- the control lane (control.cpp)

  /// The message of the peer's was taken by its NIC.
  void on_said() noexcept;
  void on_control(const wire::ControlMessage& message);
  void on_control_lost(const Error& why) noexcept;
  [[nodiscard]] Error broken_protocol(const char* why) const noexcept;

  /// Something has happened that others wait for.
  void note_event() const noexcept {
    ++worker->event_count;
    worker->look_soon();
  }

  /// ibv_post_send(3) has failed.
  [[nodiscard]] Error post_error(int result) const noexcept {
    return system_error(Stage::post, "ibv_post_send", result, nic->info.name);
  }

  void on(const wire::Probe& message) noexcept;

  void on(const wire::Fence& message) noexcept;
  void on(const wire::Fenced& message) noexcept;
  void on(const wire::Farewell& message) noexcept;
  void on(const wire::LookUp& message);
  void on(const wire::Found& message);
  void on(const wire::Shake& message);
  void on(const wire::RailDown& message) noexcept;
  void on(const wire::RailClosed& message) noexcept;
  void on(const wire::IpcCopy& message);
  void on(const wire::IpcCopied& message) noexcept;
  void on(const wire::SharePieces& message) noexcept;
  void on(const wire::PiecesShared& message) noexcept;

  // --- the data path's, besides SendQueue

  WorkerState* worker;
  NicState* nic = nullptr;
  std::uint32_t number = 0;  // of the process' connections, RemoteRegionState::connection
  EndpointPhase phase = EndpointPhase::ready;
  bool fence_next = false;  // the next request waits at the NIC for gets and atomics before it
  std::uint32_t fence_place = 0;  // `head` when the last one was asked for
  bool fence_open = false;  // an engine's copy may still have to wait for what gets have brought
  PathRules paths;
  transport::Lane* data = nullptr;  // owned below
  std::uint32_t moving = 0;         // with the worker's movers, further rails, TcpLink's engines
  std::uint32_t message_bytes = 0;  // of a receive: a header and what may follow it
  std::uint32_t max_message = 0;    // what is longer waits in the queue, and goes in pieces
  std::uint32_t inline_bytes = 0;
  TransferState* first_waiting = nullptr;  // of those for which there is no room
  TransferState* last_waiting = nullptr;
  Mailbox mail;
  std::uint64_t device_writes = 0;   // of the NIC, to memory that they copy
  std::uint64_t flushed_writes = 0;  // so many of them are visible to them

  // --- the rest

  WorkerNic& worker_nic;
  EndpointOptions options;
  std::string peer;
  std::optional<ConnectionAddress> remote;
  std::shared_ptr<WorkerState> keeps_worker;  // until the application lets go
  bool dialed = false;                        // by Endpoint::connect(): reconnect() can do so again
  std::uint32_t eager_asked = 0;
  std::uint64_t longest_message = 0;  // of the data lane

  std::uint32_t queued = 0;  // operations that waited for room, ever
  std::uint32_t unqueued = 0;
  std::optional<verbs::AddressPath> managed_path;  // of the connection manager's control lane
  ShakeTaker* shaking = nullptr;

  /// Of the first one that waits, which the peer's process moves.
  enum class Asking : std::uint8_t { not_yet, asked, answered };
  Asking asking = Asking::not_yet;
  std::unique_ptr<MemoryKeyState> asked_key;  // made for that one
  SharedPieces pieces{*this};
  std::deque<ServeRequest> to_serve;  // as many as the peer has credits
  std::uint32_t serving = 0;          // with StagedMover

  std::uint32_t ipc_copies = 0;  // that the peer was asked for, ever
  bool ipc_refused = false;      // by either end: what has another way takes that
  bool serves_ipc = false;       // with IpcServer

  std::uint32_t receives_posted = 0;

  ControlLane control{*this};
  PeerWatch watch{*this};
  Ending ending{*this};
  RemoteRegions remote_regions{*this};
  std::vector<RequestState*> requests;                       // prepared for this endpoint
  std::vector<std::unique_ptr<RequestState>> left_requests;  // let go of while under way
  std::optional<Region> messages;                            // of both lanes
  std::vector<MessageBuffer> buffers;
  std::unique_ptr<transport::Lane> data_lane;
  std::unique_ptr<RailMover> rails;      // on further NICs; null: there are none
  std::unique_ptr<TcpLink> link;         // that carries both; null: a NIC does
  mutable bool device_over_tcp = false;  // to be warned about, and then
  bool warned_of_tcp = false;
  ToldCause told_of_ipc;  // why a peer's memory was not opened, or not copied
};

}  // namespace hbmwire::detail
