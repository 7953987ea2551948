// SPDX-License-Identifier: MIT
#include <utility>

#include "hbmwire/nic.hpp"

#include "base/guarded.hpp"
#include "registration/region_state.hpp"
#include "transport/verbs/connection_state.hpp"
#include "verbs/calls.hpp"

namespace hbmwire {

namespace {

// wait() polls this long before it sleeps: about a round trip of a small message, so that short
// waits do not pay for a wake-up.
constexpr auto kSpin = std::chrono::microseconds(20);

}  // namespace

Connection::Connection(std::unique_ptr<detail::ConnectionState> state) noexcept
    : state_(std::move(state)) {}

Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

Result<Connection> Connection::create(const Nic& nic, const Options& options) {
  return guarded(Stage::open, [&]() -> Result<Connection> {
    HBMWIRE_TRY_ASSIGN(auto state, detail::ConnectionState::create(nic, options));
    return Connection(std::move(state));
  });
}

const ConnectionAddress& Connection::local() const noexcept { return state_->local; }

const std::optional<ConnectionAddress>& Connection::remote() const noexcept {
  return state_->remote;
}

std::uint64_t Connection::max_message_bytes() const noexcept { return state_->max_message_bytes; }

Result<void> Connection::connect(const ConnectionAddress& remote) {
  return guarded(Stage::connect, [&] { return state_->connect(remote); });
}

// Posting and polling never allocate, so they need no guarded().

Result<void> Connection::post_receive(std::uint64_t id, const Slice& into) {
  constexpr const char* kCall = "ibv_post_recv";
  HBMWIRE_TRY_ASSIGN(ibv_sge sge, state_->to_sge(into, kCall));
  HBMWIRE_TRY(detail::check_writable(into, state_->nic->info.name));
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &sge;
  request.num_sge = sge.length != 0 ? 1 : 0;
  ibv_recv_wr* bad = nullptr;
  return verbs::from_errno_result(ibv_post_recv(state_->qp.get(), &request, &bad), Stage::post,
                                  kCall, state_->nic->info.name);
}

Result<void> Connection::post_send(std::uint64_t id, const Slice& from) {
  return state_->post(
      {.id = id, .opcode = IBV_WR_SEND, .slice = from, .call = "ibv_post_send (SEND)"});
}

Result<void> Connection::post_write(std::uint64_t id, const Slice& from, const RemoteMemory& to) {
  return state_->post({.id = id,
                       .opcode = IBV_WR_RDMA_WRITE,
                       .slice = from,
                       .remote = to,
                       .call = "ibv_post_send (RDMA WRITE)"});
}

Result<void> Connection::post_write_immediate(std::uint64_t id, const Slice& from,
                                              const RemoteMemory& to, std::uint32_t immediate) {
  return state_->post({.id = id,
                       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                       .slice = from,
                       .remote = to,
                       .immediate = immediate,
                       .call = "ibv_post_send (RDMA WRITE with immediate)"});
}

Result<void> Connection::post_read(std::uint64_t id, const Slice& into, const RemoteMemory& from) {
  return state_->post({.id = id,
                       .opcode = IBV_WR_RDMA_READ,
                       .slice = into,
                       .remote = from,
                       .call = "ibv_post_send (RDMA READ)"});
}

Result<std::optional<Completion>> Connection::poll() { return state_->poll(); }

Result<std::optional<Completion>> Connection::wait(const Wait& wait, int also_fd) {
  const auto spin_until = Deadline::after(kSpin);
  do {
    HBMWIRE_TRY_ASSIGN(auto done, state_->poll());
    if (done) return done;
  } while (!spin_until.passed());

  for (;;) {
    // Arm, then poll once more: a completion between the last poll and the arming raises no event.
    HBMWIRE_TRY(state_->arm());
    HBMWIRE_TRY_ASSIGN(auto done, state_->poll());
    if (done) return done;
    HBMWIRE_TRY_ASSIGN(const bool event, state_->sleep(wait, also_fd));
    if (!event) return std::nullopt;
    HBMWIRE_TRY(state_->take_event());
  }
}

}  // namespace hbmwire
