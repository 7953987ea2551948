// SPDX-License-Identifier: MIT
// A hundred connections, made, used and closed in one thread that never waits for a single one:
// Endpoint::start_connect() and start_close() begin, and Worker::next_done() tells of the end.
//
//   node2$ without_waiting listen 7000
//   node1$ without_waiting node2:7000
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kPeers = 100;
constexpr std::uint64_t kBytes = sizeof(std::uint64_t);

/// The steps of a connection. The cookie of a step is kPeers times the step, plus the peer's
/// number.
enum Step : std::uint64_t { connecting, sending, closing };

Result<bool> connect_all(Worker& worker, const auto& memory, const std::string& node) {
  std::vector<PendingEndpoint> pending;
  std::vector<std::optional<Endpoint>> peers(kPeers);
  for (std::uint64_t i = 0; i < kPeers; ++i) {
    std::memcpy(memory.host_bytes().data() + i * kBytes, &i, kBytes);
    HBMWIRE_TRY_ASSIGN(auto begun, Endpoint::start_connect(worker, node, Deadline::after(20s)));
    begun.transfer().notify(connecting * kPeers + i);
    pending.push_back(std::move(begun));
  }
  for (std::uint64_t closed = 0; closed < kPeers;) {
    const auto done = worker.next_done();
    if (!done) {
      HBMWIRE_TRY(worker.wait(20s));  // until anything happens
      continue;
    }
    HBMWIRE_TRY(done->result);
    const std::uint64_t i = done->cookie % kPeers;
    switch (done->cookie / kPeers) {
      case connecting: {
        HBMWIRE_TRY_ASSIGN(peers[i], pending[i].take());
        HBMWIRE_TRY_ASSIGN(auto sent, peers[i]->send(memory.slice(i * kBytes, kBytes)));
        sent.notify(sending * kPeers + i);
        break;
      }
      case sending: {
        HBMWIRE_TRY_ASSIGN(auto closes, peers[i]->start_close(Deadline::after(20s)));
        closes.notify(closing * kPeers + i);
        break;
      }
      default:
        ++closed;
    }
  }
  return true;
}

Result<bool> accept_all(Worker& worker, const auto& memory, std::uint16_t port) {
  HBMWIRE_TRY_ASSIGN(auto listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  std::vector<bool> seen(kPeers);
  std::vector<Endpoint> peers;
  while (peers.size() < kPeers) {
    HBMWIRE_TRY_ASSIGN(auto peer, listener.accept(60s));
    const std::uint64_t at = peers.size() * kBytes;
    HBMWIRE_TRY_ASSIGN(auto came, peer.receive(memory.slice(at, kBytes)));
    HBMWIRE_TRY(came.wait(20s));
    std::uint64_t number = 0;
    std::memcpy(&number, memory.host_bytes().data() + at, kBytes);
    if (number >= kPeers || seen[number]) return false;
    seen[number] = true;
    peers.push_back(std::move(peer));
  }
  for (Endpoint& peer : peers) HBMWIRE_TRY(peer.wait_closed(20s));
  std::printf("verified %llu peers\n", static_cast<unsigned long long>(kPeers));
  return true;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const auto context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const auto memory, context.allocate_region(MemoryType::host, kPeers * kBytes,
                                                                Access::local_write));
  if (arguments.front() != "listen") return connect_all(worker, memory, arguments.front());
  return accept_all(worker, memory, static_cast<std::uint16_t>(std::stoi(arguments.at(1))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: without_waiting listen PORT | without_waiting NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "without_waiting: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
