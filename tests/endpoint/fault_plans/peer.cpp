// SPDX-License-Identifier: MIT
#include <poll.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <memory>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "counterpart.hpp"
#include "subject.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "tests/support/file_of_memory.hpp"

namespace hbmwire::test {

namespace {

using namespace std::chrono_literals;

/// The memory of this end.
struct Places {
  Shared shared;
  std::vector<Allocation> own;  // replaces target and inbox of the file; empty: those are used

  Result<void> make_own(const Context& context) {
    for (std::span<std::byte>* const place : {&shared.target, &shared.inbox}) {
      HBMWIRE_TRY_ASSIGN(const Allocation memory,
                         context.allocate(MemoryType::host, place->size(),
                                          {.device = {}, .host = {.shared = true}}));
      *place = {std::bit_cast<std::byte*>(memory.address()), place->size()};
      own.push_back(memory);
    }
    return {};
  }

  /// Registers the target (`nth` 0) or the inbox (1).
  [[nodiscard]] Result<Region> open(const Context& context, std::size_t nth, Access access) const {
    if (!own.empty()) return context.register_memory(own[nth], access);
    const std::span<std::byte> place = nth == 0 ? shared.target : shared.inbox;
    return context.register_memory(place.data(), place.size(), access);
  }

  /// Sends the port, and the descriptors by which its own memory is found.
  [[nodiscard]] bool tell(int commands, std::uint16_t port) const {
    bool told = ::write(commands, &port, sizeof port) == sizeof port;
    for (const Allocation& memory : own) {
      const int file = file_of_memory(memory.address());
      told = told && ::write(commands, &file, sizeof file) == sizeof file;
    }
    return told;
  }
};

Result<void> serve(const PeerPlan& plan, const Shared& shared, int commands, int& complaints) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  Places places{.shared = shared, .own = {}};
  if (plan.has_shared_memory) HBMWIRE_TRY(places.make_own(context));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  EndpointOptions options;
  options.peer_timeout = std::chrono::milliseconds(plan.peer_timeout_ms);
  HBMWIRE_TRY_ASSIGN(
      Listener listener,
      Listener::create(worker, {.address = "127.0.0.1", .port = 0, .endpoint = options}));
  HBMWIRE_TRY_ASSIGN(const Region region,
                     places.open(context, 0,
                                 Access::local_write | Access::remote_write | Access::remote_read |
                                     Access::remote_atomic));
  HBMWIRE_TRY(listener.advertise("target", region, {.revocable = true}));
  Access open = Access::local_write;
  if (plan.inbox_is_open) open = open | Access::remote_write;
  HBMWIRE_TRY_ASSIGN(const Region inbox, places.open(context, 1, open));
  if (!places.tell(commands, listener.port())) return {};
  std::unique_ptr<Counterpart> counterpart;  // of the first endpoint
  std::vector<Endpoint> others;
  for (;;) {
    pollfd asked{commands, POLLIN, 0};
    char command = 0;
    if (::poll(&asked, 1, 0) > 0) {
      if (::read(commands, &command, 1) != 1) break;
      if (command == 'r') HBMWIRE_TRY(listener.withdraw("target"));
      // Tells the other process that the command was carried out.
      if (::write(commands, &command, 1) != 1) break;
    }
    if (counterpart) counterpart->go_on();
    auto accepted = listener.accept({Deadline::after(1ms), -1});
    if (!accepted) continue;
    if (counterpart) {
      others.push_back(std::move(*accepted));
    } else {
      counterpart = std::make_unique<Counterpart>(std::move(*accepted), inbox, places.shared);
    }
  }
  if (!counterpart) return {};
  counterpart->end(2 * options.peer_timeout + kSlack);
  complaints = counterpart->complaints();
  return {};
}

}  // namespace

int run_peer(const PeerPlan& plan, const Shared& shared, int commands) {
  set_log_sink([](LogLevel, std::string_view) {});
  int complaints = 0;
  const auto served = serve(plan, shared, commands, complaints);
  if (!served && !plan.calls_fail) {
    std::fprintf(stderr, "peer: %s\n", describe(served.error()).c_str());
    return 1;
  }
  if (live_nic_objects().empty()) return complaints == 0 ? 0 : 1;
  std::fprintf(stderr, "peer: leaked %s\n", live_nic_objects().c_str());
  return 1;
}

}  // namespace hbmwire::test
