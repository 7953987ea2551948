// SPDX-License-Identifier: MIT
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/listener_state.hpp"
#include "wire/handshake.hpp"

namespace hbmwire {

namespace {

using namespace std::chrono_literals;

// A peer that does not get on with its handshake is let go after this.
constexpr auto kHandshake = 5s;

}  // namespace

Result<Listener> Listener::create(const Worker& worker, const ListenerOptions& options) {
  HBMWIRE_TRY_ASSIGN(auto listener, wire::ControlListener::listen(options.address, options.port));
  return Listener(std::make_shared<detail::ListenerState>(
      detail::ListenerState{worker.state(), std::move(listener), options.endpoint}));
}

std::uint16_t Listener::port() const noexcept { return state_->listener.port(); }

Result<Endpoint> Listener::accept(const Wait& wait) {
  detail::WorkerState& worker = *state_->worker;
  for (;;) {
    {
      const detail::WorkerLock lock(worker);
      worker.progress();
    }
    constexpr auto kSlice = 10ms;
    auto accepted = state_->listener.accept({Deadline::after(kSlice), wait.cancel_fd});
    if (!accepted) {
      if (accepted.error().code != Errc::timed_out || wait.deadline.passed())
        return tl::make_unexpected(accepted.error());
      continue;
    }
    wire::Handshake handshake(std::move(accepted->socket), std::move(accepted->peer),
                              wire::Handshake::Side::accepting);
    auto state = detail::shake_hands(
        state_->worker, handshake, {Deadline::after(kHandshake), wait.cancel_fd}, state_->options);
    if (state) {
      (*state)->advertised = state_->advertised;
      return Endpoint(std::move(*state));
    }
    if (state.error().code == Errc::cancelled) return tl::make_unexpected(state.error());
    log_line(LogLevel::warn, describe(state.error()));
  }
}

Result<void> Listener::advertise(std::string_view name, const Region& region,
                                 const MemoryKeyOptions& options) {
  return state_->advertised->add(name, region, options);
}

Result<void> Listener::withdraw(std::string_view name) { return state_->advertised->remove(name); }

}  // namespace hbmwire
