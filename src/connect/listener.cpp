// SPDX-License-Identifier: MIT
#include <utility>

#include "base/guarded.hpp"
#include "connect/listener_state.hpp"
#include "context/path_policy.hpp"

namespace hbmwire {

Result<Listener> Listener::create(const Worker& worker, const ListenerOptions& options) {
  return guarded(Stage::connect, [&]() -> Result<Listener> {
    HBMWIRE_TRY(state_of(worker).check_process(Stage::connect));
    // Checked here, since there is no caller to tell once a peer has come.
    HBMWIRE_TRY(detail::validate(options.endpoint.paths, worker.context().paths()));
    HBMWIRE_TRY_ASSIGN(auto state, detail::ListenerState::create(shared_state_of(worker), options));
    return Listener(std::move(state));
  });
}

std::uint16_t Listener::port() const noexcept { return state_->port(); }

Result<Endpoint> Listener::accept(const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<Endpoint> {
    detail::WorkerState& worker = *state_->worker;
    const detail::WorkerLock lock(worker);
    HBMWIRE_TRY(worker.check_process(Stage::connect));
    std::shared_ptr<detail::EndpointState> endpoint;
    const auto over = worker.drive(wait, [&] {
      if (!endpoint) endpoint = state_->next();
      return endpoint != nullptr;
    });
    if (endpoint) return handle_of<Endpoint>(std::move(endpoint));
    const bool late = over.error().code == Errc::timed_out;
    return tl::make_unexpected(make_error(over.error().code, Stage::connect,
                                          late ? "no peer came" : "waiting for a peer",
                                          "port " + std::to_string(port())));
  });
}

std::optional<Endpoint> Listener::try_accept() {
  const detail::WorkerLock lock(*state_->worker);
  // A child by fork(2) gets none of its parent's peers.
  if (state_->worker->made.is_inherited()) return std::nullopt;
  state_->worker->progress();
  auto endpoint = state_->next();
  if (!endpoint) return std::nullopt;
  return handle_of<Endpoint>(std::move(endpoint));
}

Result<void> Listener::advertise(std::string_view name, const Region& region) {
  return advertise(name, region, MemoryKeyOptions{});
}

Result<void> Listener::advertise(std::string_view name, const Region& region,
                                 const MemoryKeyOptions& options) {
  return guarded(Stage::register_memory, [&]() -> Result<void> {
    HBMWIRE_TRY(state_->worker->check_process(Stage::register_memory));
    return state_->advertised->add(name, region, options);
  });
}

Result<void> Listener::withdraw(std::string_view name) {
  return guarded(Stage::connect, [&]() -> Result<void> {
    HBMWIRE_TRY(state_->worker->check_process(Stage::connect));
    return state_->advertised->remove(name);
  });
}

}  // namespace hbmwire
