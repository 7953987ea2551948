// SPDX-License-Identifier: MIT
// A counter and a lock in the memory of one process. Another process uses them without the first
// one's help.
//
//   node2$ atomics listen 7000
//   node1$ atomics node2:7000
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kAdds = 100;
constexpr std::uint64_t kOwner = 4711;  // this end as the lock's owner: any number but 0

/// Counts, and takes the lock. "numbers" are two of 64 bits: the counter, and the lock's owner.
Result<bool> use(Endpoint& peer) {
  HBMWIRE_TRY_ASSIGN(const auto numbers, peer.remote("numbers", 10s));
  for (std::uint64_t i = 0; i < kAdds; ++i) {
    HBMWIRE_TRY_ASSIGN(Transfer add, peer.fetch_add(numbers.slice(0, 8), 2));
    HBMWIRE_TRY(add.wait(10s));
    if (add.value() != 2 * i) return false;  // the value before the addition
  }
  // If several ends try at once, one gets the lock: the one that finds 0.
  HBMWIRE_TRY_ASSIGN(Transfer lock, peer.compare_swap(numbers.slice(8, 8), 0, kOwner));
  HBMWIRE_TRY(lock.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  return lock.value() == 0;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    return use(peer);
  }
  HBMWIRE_TRY_ASSIGN(const Region region,
                     context.allocate_region(MemoryType::host, 16, Access::remote_atomic));
  auto* const numbers = reinterpret_cast<std::uint64_t*>(region.host_bytes().data());
  numbers[0] = numbers[1] = 0;
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("numbers", region));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY(peer.wait_closed(30s));
  const bool right = numbers[0] == 2 * kAdds && numbers[1] == kOwner;
  std::printf("%s: the counter is %lu, the lock is %lu\n", right ? "verified" : "wrong", numbers[0],
              numbers[1]);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: atomics listen PORT | atomics NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "atomics: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
