// SPDX-License-Identifier: MIT
#include "tools/perf/endpoint/links.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "hbmwire/buffer.hpp"
#include "hbmwire/host_port.hpp"
#include "hbmwire/memory_key.hpp"

namespace hbmwire::tools::perf {
namespace {

// Bytes for a key: one with several NICs has a few hundred. Any buffer is larger.
constexpr std::size_t kKeyRoom = 2048;

Outcome<std::uint32_t> most_transfers(const PerfRequest& request) {
  constexpr std::uint64_t kBeside = 64;  // for the library's own transfers, and the keys
  constexpr std::uint64_t kMost = 1 << 20;
  const std::uint64_t each = std::uint64_t{request.tx_depth} + request.rx_depth;
  const std::uint64_t wanted = each * request.queue_pairs + kBeside;
  if (wanted <= kMost) return static_cast<std::uint32_t>(wanted);
  return fail(
      fmt::format("configure: {} transfers under way (-q times -t and -r) are more than the "
                  "{} that a worker is asked for: choose fewer",
                  wanted, kMost),
      kExitUsage);
}

/// The pre-shared key is not secret, since the seed in it travels in clear text. It separates runs
/// that take place at the same time.
EndpointOptions options_of(const Work& work) {
  EndpointOptions options;
  options.send_depth = work.request.tx_depth;
  // Without Path::ipc, whose bytes an engine of the target's process moves: the target of puts
  // makes no progress during a pass.
  options.paths.allow = {Path::host, Path::zero_copy, Path::peer_memory,  Path::staged,
                         Path::copy, Path::tcp,       Path::shared_memory};
  options.link = {.service_level = work.request.service_level,
                  .traffic_class = work.request.traffic_class,
                  .ack_timeout = work.request.ack_timeout,
                  .retry_count = work.request.retries};
  if (work.request.mtu_bytes != 0) options.link.mtu_bytes = work.request.mtu_bytes;
  options.pre_shared_key.assign(32, std::byte{0x5a});
  std::memcpy(options.pre_shared_key.data(), &work.request.seed, sizeof work.request.seed);
  return options;
}

/// Replaces the library's names of options by those of perf.
Failure not_linked(const Error& error) {
  switch (error.hint) {
    case Hint::retries_outlast:
      return {error, "choose a smaller -u or --retry_count"};
    case Hint::link_options:
      // Only the MTU can be meant: perf has no option for the other cause, a pkey index, which is a
      // setting.
      if (error.code != Errc::not_supported) return error;
      return {error, "choose a smaller -m, or leave it out; `hbmwire info` lists the ports' MTU"};
    default:
      return error;
  }
}

/// This side's key, and the port on which it listens.
Outcome<wire::PerfQueues> describe(const Work& work, std::uint16_t port) {
  wire::PerfQueues mine;
  mine.first.max_message_bytes = work.side.nic.info().max_message_bytes;
  mine.first.incarnation = 1;  // required by the message
  mine.memory = work.side.buffer.region().remote(work.side.nic);
  mine.service_port = port;
  return mine;
}

/// Accepts the next endpoint. Also watches the control connection, to notice if the client gives
/// up.
Outcome<Endpoint> accept_one(const Work& work, Listener& listener) {
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  const Wait whole = work.session.wait();
  while (true) {
    auto endpoint = listener.accept({kBetweenLooks, whole.cancel_fd});
    if (endpoint) return std::move(*endpoint);
    if (endpoint.error().code != Errc::timed_out || whole.deadline.passed())
      return tl::make_unexpected(endpoint.error());
    HBMWIRE_TRY(work.session.tick());
    HBMWIRE_TRY(work.session.look());
  }
}

Outcome<std::vector<Endpoint>> accept_all(const Work& work, const Worker& worker) {
  auto listening = Listener::create(worker, {.endpoint = options_of(work)});
  if (!listening) return tl::make_unexpected(not_linked(listening.error()));
  Listener& listener = *listening;
  HBMWIRE_TRY_ASSIGN(const auto mine, describe(work, listener.port()));
  HBMWIRE_TRY(work.session.send(mine));
  std::vector<Endpoint> endpoints;
  for (std::uint32_t i = 0; i < work.request.queue_pairs; ++i) {
    HBMWIRE_TRY_ASSIGN(auto endpoint, accept_one(work, listener));
    endpoints.push_back(std::move(endpoint));
    HBMWIRE_TRY(work.session.tick());
  }
  return endpoints;
}

Outcome<std::vector<Endpoint>> connect_all(const Work& work, const Worker& worker) {
  HBMWIRE_TRY_ASSIGN(const auto theirs, work.session.expect<wire::PerfQueues>());
  HBMWIRE_TRY_ASSIGN(const HostPort server, split_host_port(work.session.peer()));
  const std::string peer = join_host_port(server.host, theirs.service_port);
  std::vector<Endpoint> endpoints;
  for (std::uint32_t i = 0; i < work.request.queue_pairs; ++i) {
    auto endpoint = Endpoint::connect(worker, peer, work.session.wait(), options_of(work));
    if (!endpoint) return tl::make_unexpected(not_linked(endpoint.error()));
    endpoints.push_back(std::move(*endpoint));
    HBMWIRE_TRY(work.session.tick());
  }
  return endpoints;
}

/// Exchanges keys with the peer by messages. They pass through the beginning of each half of the
/// buffer, which is still empty.
Outcome<RemoteKey> exchange_keys(const Work& work, Endpoint& endpoint, const MemoryKey& key) {
  Buffer& buffer = work.side.buffer;
  const Region& region = buffer.region();
  const std::uint64_t half = work.side.layout.half_bytes();
  HBMWIRE_TRY(buffer.write(0, key.bytes(), work.session.wait()));
  HBMWIRE_TRY_ASSIGN(auto receive, endpoint.receive(region.slice(half, kKeyRoom)));
  HBMWIRE_TRY_ASSIGN(auto send, endpoint.send(region.slice(0, key.bytes().size())));
  HBMWIRE_TRY(receive.wait(work.session.wait()));
  HBMWIRE_TRY(send.wait(work.session.wait()));
  std::vector<std::byte> theirs(receive.bytes());
  HBMWIRE_TRY(buffer.read(half, theirs, work.session.wait()));
  HBMWIRE_TRY_ASSIGN(auto unpacked, RemoteKey::unpack(theirs));
  return unpacked;
}

}  // namespace

Outcome<Links> connect_links(const Work& work) {
  const PerfRequest& request = work.request;
  HBMWIRE_TRY_ASSIGN(const auto transfers, most_transfers(request));
  HBMWIRE_TRY_ASSIGN(auto worker, Worker::create(work.side.context, {.max_transfers = transfers}));
  HBMWIRE_TRY_ASSIGN(auto endpoints,
                     work.is_client() ? connect_all(work, worker) : accept_all(work, worker));
  HBMWIRE_TRY_ASSIGN(auto key, MemoryKey::pack(work.side.buffer.region()));
  HBMWIRE_TRY_ASSIGN(const auto theirs, exchange_keys(work, endpoints.front(), key));
  Links all{.region = &work.side.buffer.region(),
            .worker = std::move(worker),
            .key = std::move(key),
            .links = {}};
  for (std::uint32_t i = 0; i < request.queue_pairs; ++i) {
    HBMWIRE_TRY_ASSIGN(const auto remote, endpoints[i].remote(theirs));
    all.links.push_back({.endpoint = std::move(endpoints[i]),
                         .remote = remote,
                         .source = work.side.layout.source(i),
                         .target = work.side.layout.target(i),
                         .sent = std::vector<Transfer>(request.tx_depth),
                         .received = std::vector<Transfer>(request.rx_depth)});
  }
  return all;
}

}  // namespace hbmwire::tools::perf
