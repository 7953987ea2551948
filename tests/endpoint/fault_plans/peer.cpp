// SPDX-License-Identifier: MIT
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/log.hpp"

#include "subject.hpp"
#include "tests/library/emulated_hooks.hpp"

namespace hbmwire::test {

namespace {

using namespace std::chrono_literals;

Result<void> serve(const Scenario& scenario, const Shared& shared, int commands) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  EndpointOptions options;
  options.peer_timeout = std::chrono::milliseconds(scenario.peer_timeout_ms);
  HBMWIRE_TRY_ASSIGN(
      Listener listener,
      Listener::create(worker, {.address = "127.0.0.1", .port = 0, .endpoint = options}));
  HBMWIRE_TRY_ASSIGN(const Region region,
                     context.register_memory(shared.target.data(), shared.target.size(),
                                             Access::local_write | Access::remote_write |
                                                 Access::remote_read | Access::remote_atomic));
  HBMWIRE_TRY(listener.advertise("target", region, {.revocable = true}));
  const std::uint16_t port = listener.port();
  if (::write(commands, &port, sizeof port) != sizeof port) return {};
  std::vector<Endpoint> endpoints;
  for (;;) {
    pollfd asked{commands, POLLIN, 0};
    char command = 0;
    if (::poll(&asked, 1, 0) > 0) {
      if (::read(commands, &command, 1) != 1) return {};
      if (command == 'r') HBMWIRE_TRY(listener.withdraw("target"));
      if (::write(commands, &command, 1) != 1) return {};
    }
    if (auto accepted = listener.accept({Deadline::after(1ms), -1}))
      endpoints.push_back(std::move(*accepted));
  }
}

}  // namespace

int run_peer(const Scenario& scenario, const Shared& shared, int commands) {
  set_log_sink([](LogLevel, std::string_view) {});
  const auto served = serve(scenario, shared, commands);
  if (!served && scenario.fault != Fault::failing_call) {
    std::fprintf(stderr, "peer: %s\n", describe(served.error()).c_str());
    return 1;
  }
  if (live_nic_objects().empty()) return 0;
  std::fprintf(stderr, "peer: leaked %s\n", live_nic_objects().c_str());
  return 1;
}

}  // namespace hbmwire::test
