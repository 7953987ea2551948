// SPDX-License-Identifier: MIT
// Gets the bytes in the peer's memory, puts an answer in their place, and waits until the answer
// has arrived. Shows the use of a fence and of a flush.
//
//   node2$ ordering listen 7000
//   node1$ ordering node2:7000
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kParts = 16;
constexpr std::uint64_t kPartBytes = 4096;

Result<bool> exchange(Endpoint& peer, const Region& taken, const Region& answer) {
  HBMWIRE_TRY_ASSIGN(const auto theirs, peer.remote("desk", 10s));
  HBMWIRE_TRY_ASSIGN(auto get, peer.get(taken.slice(), theirs.slice()));
  // Without a fence the puts might overtake the bytes of the get.
  HBMWIRE_TRY(peer.fence());
  for (std::uint64_t i = 0; i < kParts; ++i) {
    // Nothing waits for a single put: its handle is dropped, and the transfer goes on.
    const std::uint64_t at = i * kPartBytes;
    HBMWIRE_TRY(peer.put(answer.slice(at, kPartBytes), theirs.slice(at, kPartBytes)));
  }
  HBMWIRE_TRY_ASSIGN(auto flush, peer.flush());
  HBMWIRE_TRY(flush.wait(10s));  // all puts have arrived
  HBMWIRE_TRY(get.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  return taken.host_bytes().back() == std::byte{1};
}

Result<bool> run(const std::vector<std::string>& arguments) {
  constexpr auto kOpen = Access::local_write | Access::remote_read | Access::remote_write;
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::host, kParts * kPartBytes, kOpen));
  std::memset(memory.host_bytes().data(), 1, memory.size_bytes());
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(const Region answer,
                       context.allocate_region(MemoryType::host, memory.size_bytes(), kOpen));
    std::memset(answer.host_bytes().data(), 2, answer.size_bytes());
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    return exchange(peer, memory, answer);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("desk", memory));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY(peer.wait_closed(30s));
  const bool right = memory.host_bytes().back() == std::byte{2};
  std::printf("%s\n", right ? "verified" : "the answer is not there");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: ordering listen PORT | ordering NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "ordering: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
