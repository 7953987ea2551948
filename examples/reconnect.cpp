// SPDX-License-Identifier: MIT
// Goes on after the peer has ended the connection: connects again, and asks for the memory again.
//
//   node2$ reconnect listen 7000
//   node1$ reconnect node2:7000
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 4096;

Result<bool> put_twice(Endpoint& peer, const Region& memory) {
  HBMWIRE_TRY_ASSIGN(auto theirs, peer.remote("memory", 10s));
  for (const int value : {1, 2}) {
    memory.host_bytes()[0] = static_cast<std::byte>(value);
    HBMWIRE_TRY_ASSIGN(auto put, peer.put(memory.slice(), theirs.slice()));
    HBMWIRE_TRY(put.wait(10s));
    HBMWIRE_TRY_ASSIGN(auto told, peer.send(memory.slice(0, 0)));
    HBMWIRE_TRY(told.wait(10s));
    if (value == 2) break;
    // The other side closes. An endpoint that has failed (phase(), error()) is reconnected in the
    // same way. Its operations under way have then ended with an error, and none is repeated.
    HBMWIRE_TRY(peer.wait_closed(10s));
    HBMWIRE_TRY(peer.reconnect(10s));
    HBMWIRE_TRY_ASSIGN(theirs, peer.remote("memory", 10s));
  }
  HBMWIRE_TRY(peer.close(10s));
  return true;
}

/// Serves one connection, until the peer tells that it has put.
Result<bool> serve_once(Listener& listener, const Region& memory, int expected) {
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY_ASSIGN(auto told, peer.receive(memory.slice(0, 0)));
  HBMWIRE_TRY(told.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  return memory.host_bytes()[0] == static_cast<std::byte>(expected);
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::host, kBytes, Access::remote_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    return put_twice(peer, memory);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("memory", memory));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(const bool first, serve_once(listener, memory, 1));
  HBMWIRE_TRY_ASSIGN(const bool second, serve_once(listener, memory, 2));
  std::printf("%s\n", first && second ? "verified" : "other bytes than were put");
  return first && second;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: reconnect listen PORT | reconnect NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "reconnect: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
