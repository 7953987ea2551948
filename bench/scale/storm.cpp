// SPDX-License-Identifier: MIT
#include "bench/scale/storm.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/peer.hpp"
#include "bench/endpoint/our_end.hpp"

namespace hbmwire::bench {
namespace {

EndpointOptions storm_options() {
  EndpointOptions options = keyed_options();
  options.retry_connect = true;
  return options;
}

void listen_for_all(Line& line) {
  const Context context = need(Context::create());
  const Worker worker = need(Worker::create(context));
  Listener listener =
      need(Listener::create(worker, {.address = "127.0.0.1", .endpoint = storm_options()}));
  line.send(listener.port());
  std::vector<Endpoint> endpoints;
  while (!line.is_readable()) {
    if (auto endpoint = listener.accept(std::chrono::milliseconds(10)))
      endpoints.push_back(std::move(*endpoint));
  }
}

/// Tells when all clients are prepared, and later how many have connected. Ends when the line
/// closes.
void connect_all(Line& line, unsigned clients) {
  const Context context = need(Context::create());
  // One more than there are clients: this thread takes part, too.
  std::latch prepared(clients + 1);
  std::latch begun(1);
  std::latch tried(clients + 1);
  std::atomic<std::uint16_t> port = 0;
  std::atomic<unsigned> connected = 0;
  std::vector<std::jthread> threads;
  std::latch over(1);
  for (unsigned i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      const Worker worker = need(Worker::create(context));
      prepared.arrive_and_wait();
      begun.wait();
      const auto endpoint = Endpoint::connect(worker, "127.0.0.1:" + std::to_string(port),
                                              std::chrono::seconds(60), storm_options());
      connected += endpoint ? 1U : 0U;
      tried.arrive_and_wait();
      over.wait();
    });
  }
  prepared.arrive_and_wait();
  line.send(true);
  port = line.receive<std::uint16_t>();
  begun.count_down();
  tried.arrive_and_wait();
  line.send(connected.load());
  // The other end closes the line when all clients are counted. The endpoints live until then.
  bool more = false;
  static_cast<void>(line.next(more));
  over.count_down();
}

}  // namespace

double measure_storm_ms(unsigned processes, unsigned clients_of_each) {
  const Cpus cpus = Cpus::allowed();
  Peer listener(cpus.second, listen_for_all);
  const auto port = listener.line().receive<std::uint16_t>();
  std::vector<std::unique_ptr<Peer>> clients;
  for (unsigned i = 0; i < processes; ++i) {
    clients.push_back(
        std::make_unique<Peer>(i % 2 == 0 ? cpus.first : cpus.second,
                               [&](Line& line) { connect_all(line, clients_of_each); }));
  }
  for (const auto& client : clients) client->line().receive<bool>();
  const double before = now_ns();
  for (const auto& client : clients) client->line().send(port);
  unsigned connected = 0;
  for (const auto& client : clients) connected += client->line().receive<unsigned>();
  const double took_ms = (now_ns() - before) / 1e6;
  if (connected != processes * clients_of_each) {
    throw std::runtime_error("of " + std::to_string(processes * clients_of_each) + " clients " +
                             std::to_string(connected) + " were connected");
  }
  return took_ms;
}

}  // namespace hbmwire::bench
