// SPDX-License-Identifier: MIT
// Two ends that meet by the RDMA connection manager instead of TCP. The address is one of an RDMA
// NIC's interface, and that NIC carries everything.
//
//   node2$ rdma_cm listen 7000
//   node1$ rdma_cm node2-ib0:7000
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>
#include <hbmwire/nic.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

const std::vector<std::byte> kContents(64, std::byte{42});

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const auto memory, context.allocate_region(MemoryType::host, kContents.size(),
                                                                Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer,
                       Endpoint::connect(worker, "rdma_cm://" + arguments.front(), 10s));
    std::ranges::copy(kContents, memory.host_bytes().begin());
    HBMWIRE_TRY_ASSIGN(Transfer sent, peer.send(memory.slice()));
    HBMWIRE_TRY(sent.wait(10s));
    std::printf("connected to %s by %s\n", peer.peer().c_str(), peer.nic().info().name.c_str());
    HBMWIRE_TRY(peer.close(10s));
    return true;
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port, .rdma_cm = true}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY_ASSIGN(Transfer received, peer.receive(memory.slice()));
  HBMWIRE_TRY(received.wait(10s));
  const bool right =
      received.bytes() == kContents.size() && std::ranges::equal(memory.host_bytes(), kContents);
  HBMWIRE_TRY(peer.wait_closed(10s));
  std::printf("%s\n", right ? "verified" : "other bytes than were sent");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: rdma_cm listen PORT | rdma_cm NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "rdma_cm: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
