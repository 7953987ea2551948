// SPDX-License-Identifier: MIT
#include "connect/cm_attempt.hpp"

#include <sys/epoll.h>

#include <utility>

#include "hbmwire/host_port.hpp"

#include "base/guarded.hpp"
#include "connect/link_timing.hpp"
#include "connect/listener_state.hpp"
#include "wire/dial.hpp"

namespace hbmwire::detail {

namespace {

using Side = wire::Handshake::Side;
using Step = wire::Handshake::Step;
using wire::Refusal;

static_assert(wire::kMaxTurnBytes <= wire::kMaxShakeBytes);

}  // namespace

CmAttempt::~CmAttempt() {
  if (watched_) raw_worker_->sockets.forget(id_->fd());
  // The peer has refused this endpoint or has never seen it, so there is no peer to say goodbye to.
  if (endpoint_ && connected_) endpoint_->ending.expect_no_peer();
}

Result<std::unique_ptr<CmAttempt>> CmAttempt::dial(const std::shared_ptr<WorkerState>& worker,
                                                   std::string_view where,
                                                   wire::AddressWalk addresses,
                                                   const EndpointOptions& options) {
  HBMWIRE_TRY(check_managed(options.link));
  HBMWIRE_TRY_ASSIGN(auto handshake, wire::Handshake::create(Side::connecting, std::string(where),
                                                             options.pre_shared_key));
  std::unique_ptr<CmAttempt> attempt(new CmAttempt(worker, std::move(handshake), options));
  attempt->addresses_ = std::move(addresses);
  HBMWIRE_TRY(attempt->dial_next());
  return attempt;
}

/// Tries the addresses of the name in turn, until a NIC of the worker reaches one of them and a
/// peer answers there.
Result<void> CmAttempt::dial_next() {
  return addresses_.next([this](const addrinfo& address) -> Result<void> {
    if (std::exchange(watched_, false)) raw_worker_->sockets.forget(id_->fd());
    endpoint_.reset();
    id_.reset();
    HBMWIRE_TRY_ASSIGN(id_, transport::CmId::create(peer()));
    HBMWIRE_TRY(raw_worker_->sockets.watch(id_->fd(), EPOLLIN, *this));
    watched_ = true;
    if (const auto traffic_class = options_.link.traffic_class)
      HBMWIRE_TRY(id_->set_traffic_class(*traffic_class));
    return id_->resolve_address(*address.ai_addr);
  });
}

Result<std::unique_ptr<CmAttempt>> CmAttempt::welcome(const std::shared_ptr<WorkerState>& worker,
                                                      const transport::CmEvent& request,
                                                      const EndpointOptions& options) {
  std::string peer = transport::CmId::name_of_peer(request.id);
  HBMWIRE_TRY_ASSIGN(transport::CmId id, transport::CmId::adopt(request.id, peer));
  HBMWIRE_TRY_ASSIGN(auto handshake, wire::Handshake::create(Side::accepting, std::move(peer),
                                                             options.pre_shared_key));
  std::unique_ptr<CmAttempt> attempt(new CmAttempt(worker, std::move(handshake), options));
  attempt->accepting_ = true;
  attempt->id_ = std::move(id);
  HBMWIRE_TRY(worker->sockets.watch(attempt->id_->fd(), EPOLLIN, *attempt));
  attempt->watched_ = true;
  auto ready = attempt->make_endpoint();
  if (ready) ready = attempt->wire_control();
  if (ready) ready = attempt->id_->accept(attempt->endpoint_->control.local().queue_pair);
  if (ready) return attempt;
  attempt->id_->reject();
  return tl::make_unexpected(ready.error());
}

Error CmAttempt::turn_away(const transport::CmEvent& request) {
  const std::string peer = transport::CmId::name_of_peer(request.id);
  if (auto id = transport::CmId::adopt(request.id, peer)) id->reject();
  return make_error(Errc::protocol, Stage::connect, "the peer speaks another protocol", peer,
                    Hint::not_hbmwire);
}

/// Makes the endpoint on the NIC that the connection manager chose.
Result<void> CmAttempt::make_endpoint() {
  const auto worker = worker_.lock();
  if (!worker) {
    return tl::make_unexpected(
        make_error(Errc::cancelled, Stage::connect, "the worker has ended", peer()));
  }
  for (WorkerNic& nic : worker->nics) {
    const NicInfo& info = nic.nic.info();
    if (info.name != id_->device() || info.port != id_->device_port()) continue;
    WorkerNic* const chosen = &nic;
    HBMWIRE_TRY_ASSIGN(endpoint_, EndpointState::create(worker, options_, std::span(&chosen, 1)));
    endpoint_->peer = peer();
    endpoint_->dialed = !accepting_;
    endpoint_->movers.ring.exclude();
    if (!accepting_) handshake_.offer(endpoint_->wiring.offer());
    return {};
  }
  return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                        "the address is on another NIC than the worker's", peer(),
                                        Hint::rdma_cm));
}

/// Wires up the control lane, by which the handshake goes from here on.
Result<void> CmAttempt::wire_control() {
  HBMWIRE_TRY_ASSIGN(const transport::CmPath path, id_->path());
  HBMWIRE_TRY(endpoint_->wiring.wire_control(path));
  connected_ = true;
  endpoint_->wiring.set_handshake(this);
  return {};
}

Result<void> CmAttempt::on_event(const transport::CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      HBMWIRE_TRY(make_endpoint());
      return id_->resolve_route();
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return id_->connect(endpoint_->control.local().queue_pair);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (!event.ours) {
        id_->reject();
        return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                              "the peer speaks another protocol", peer(),
                                              Hint::not_hbmwire));
      }
      HBMWIRE_TRY(wire_control());
      HBMWIRE_TRY(id_->establish());
      advance();
      return {};
    case RDMA_CM_EVENT_ESTABLISHED:
      return {};
    case RDMA_CM_EVENT_DISCONNECTED:
      // Earlier messages of the peer, above all a refusal, may still come by the control lane:
      // look_after() waits for them.
      disconnected_ = 1;
      return {};
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return {};
    default:
      return tl::make_unexpected(id_->failed(event));
  }
}

void CmAttempt::look_after() noexcept {
  constexpr unsigned kLooks = 16;  // completions are polled before each
  ConnectionAttempt::look_after();
  if (!accepting_ && !connected_ && !over_ && addresses_.leaves_it()) fail(timed_out());
  if (disconnected_ == 0 || over_ || ++disconnected_ < kLooks) return;
  handshake_.end();
  end(handshake_.error());
}

void CmAttempt::on_socket() noexcept {
  while (!over_) {
    const auto event = id_->next();
    if (!event) return;
    const auto taken = guarded(Stage::connect, [&] { return on_event(*event); });
    if (!taken) fail(taken.error());
  }
}

/// Tries the next address, unless a peer has answered.
void CmAttempt::fail(const Error& why) noexcept {
  // A peer answered, so the address is right.
  const bool answered = accepting_ || connected_ || why.code == Errc::protocol;
  if (answered) {
    end(why);
    return;
  }
  addresses_.give_up(why);
  if (const auto next = guarded(Stage::connect, [&] { return dial_next(); }); !next)
    end(next.error());
}

void CmAttempt::on_shake(std::span<const std::byte> bytes) noexcept {
  note_word();
  const auto taken = guarded(Stage::connect, [&]() -> Result<void> {
    handshake_.take(bytes);
    advance();
    return {};
  });
  if (!taken) end(taken.error());
}

/// Does the steps of the handshake that are possible now.
void CmAttempt::advance() {
  while (!over_) {
    if (const auto bytes = handshake_.to_send(); !bytes.empty()) {
      endpoint_->control.say(wire::Shake{{bytes.begin(), bytes.end()}});
      handshake_.sent(bytes.size());
    }
    if (endpoint_->phase != EndpointPhase::ready) {
      end(endpoint_->ending.error() ? *endpoint_->ending.error() : endpoint_->not_ready());
    } else if (handshake_.step() == Step::has_offer) {
      on_offer();
    } else if (handshake_.step() == Step::refused) {
      end(handshake_.error());
    } else if (handshake_.step() == Step::done) {
      watched_ = false;
      endpoint_->watch.keep_cm(std::make_unique<CmLink>(*raw_worker_, *endpoint_, std::move(*id_)));
      over_ = true;
      silent_ = true;
    } else {
      return;
    }
  }
}

void CmAttempt::end(const Error& why) noexcept {
  if (over_) return;
  error_ = why;
  over_ = true;
  // The NIC sends the last messages; the control lane is kept until then.
  silent_ = true;
}

void CmAttempt::give_up() noexcept {
  if (over_) return;
  static_cast<void>(guarded(Stage::connect, [&]() -> Result<void> {
    handshake_.refuse(Refusal::too_slow, timed_out());
    if (connected_) advance();
    return {};
  }));
  end(timed_out());
}

Error CmAttempt::timed_out() const noexcept {
  return make_error(Errc::timed_out, Stage::connect, "the peer does not get on with the handshake",
                    peer(), Hint::peer_slow);
}

void CmPort::on_socket() noexcept {
  // Takes one request, for which a silent peer may have to go. Further ones wait in the kernel.
  if (!listener.make_room()) {
    listener.listen(false);
    return;
  }
  const auto event = id.next();
  if (event && event->type == RDMA_CM_EVENT_CONNECT_REQUEST) listener.take_request(*event);
}

}  // namespace hbmwire::detail
