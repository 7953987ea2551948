// SPDX-License-Identifier: MIT
#include "mover/shared_pieces.hpp"

#include <string>
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

// As many pieces as the peer moves at a time: kMostServed of its StagedServer.
constexpr std::uint32_t kPieces = 4;

}  // namespace

bool SharedPieces::may_carry(const RegionState& here, const RemoteRegionState& there,
                             std::uint64_t bytes) const noexcept {
  return endpoint_.paths.by_tcp() && admitted_ && told_ != Told::refused && bytes >= kOverTcpFrom &&
         there.type != MemoryType::host && endpoint_.paths.is_staged(here.path);
}

Result<void> SharedPieces::open() {
  if (own_) return {};
  const Nic* const nic = !endpoint_.paths.by_tcp() ? &endpoint_.worker_nic.nic : nullptr;
  const Access access = Access::local_write | Access::remote_read | Access::remote_write;
  const Context& context = endpoint_.worker->context;
  HBMWIRE_TRY_ASSIGN(auto pool,
                     transport::PiecePool::create(context, nic, kPieces, access, admitted_));
  if (admitted_) {
    HBMWIRE_TRY_ASSIGN(const IpcHandle handle, pool.handle());
    told_ = Told::asked;
    endpoint_.control.say(wire::SharePieces{.address = pool.address(), .handle = handle});
    // If there is no memory for the message, the endpoint has ended.
    if (endpoint_.phase != EndpointPhase::ready) return tl::make_unexpected(endpoint_.not_ready());
  }
  own_.emplace(std::move(pool));
  return {};
}

bool SharedPieces::settle(TransferState& transfer) const noexcept {
  if (!endpoint_.paths.by_tcp() || transfer.protocol != Protocol::proxied) return true;
  if (told_ == Told::asked) return false;
  if (told_ == Told::mapped) return true;
  transfer.protocol = Protocol::direct;
  transfer.path = Path::tcp;
  return true;
}

bool SharedPieces::awaited() const noexcept {
  return told_ == Told::asked && endpoint_.paths.by_tcp() && !endpoint_.pending.empty();
}

void SharedPieces::on(const wire::SharePieces& message) noexcept {
  // An end that is ending sends only Fenced.
  if (endpoint_.phase != EndpointPhase::ready) return;
  if (std::exchange(asked_here_, true)) {
    endpoint_.break_protocol("the peer shares its pieces again");
    return;
  }
  if (admitted_) {
    const auto open = [&]() -> Result<transport::PeerPieces> {
      HBMWIRE_TRY_ASSIGN(const auto host, endpoint_.worker->context.open(MemoryType::host));
      return transport::PeerPieces::open(*host, message.handle, message.address);
    };
    auto opened = open();
    if (opened) {
      peers_.emplace(std::move(*opened));
    } else if (is_shortage(opened.error())) {
      // Going on without pieces would be slower for as long as the endpoint lives, because of a
      // passing shortage.
      endpoint_.fail(opened.error(), nullptr);
      return;
    } else {
      log_line(LogLevel::warn, [&] {
        return "what is staged with " + endpoint_.peer + " goes by " +
               (!endpoint_.paths.by_tcp() ? endpoint_.nic->info.name : "TCP") +
               " and not through shared host memory: " + describe(opened.error()) +
               "; it takes two processes of one user that see each other in /proc (for "
               "containers: --pid=host, or one PID namespace)";
      });
    }
  }
  endpoint_.control.say(wire::PiecesShared{peers_.has_value()});
}

void SharedPieces::on(const wire::PiecesShared& message) noexcept {
  if (told_ != Told::asked) {
    endpoint_.break_protocol("the peer answered a question that was not asked");
    return;
  }
  told_ = message.mapped ? Told::mapped : Told::refused;
  ++endpoint_.worker->event_count;
  if (endpoint_.phase == EndpointPhase::ready) endpoint_.post_waiting();
}

}  // namespace hbmwire::detail
