// SPDX-License-Identifier: MIT
// Moves the key-value cache of a request from the node that computed it (prefill) to the node that
// continues with it (decode). 100,000 blocks that lie scattered in one card's memory go into other
// blocks of another card's, in one transfer by pairs of block numbers. An immediate number tells
// the decoder that they have arrived.
//
//   node2$ kv_cache listen 7000       decodes
//   node1$ kv_cache node2:7000        prefills
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBlockBytes = 1 << 10;
constexpr std::uint64_t kBlocks = 1 << 17;  // in each side's cache
constexpr std::uint64_t kUsed = 100'000;    // blocks that the request has
constexpr std::uint32_t kRequest = 4711;
constexpr int kSteps = 2;  // how often the same blocks are sent, each time with other contents

using Numbers = std::vector<std::uint32_t>;

/// The block numbers of the request at this side: `first`, `first` + `step`, and so on. `step` is
/// odd, so that each number comes once.
Numbers make_numbers(std::uint32_t first, std::uint32_t step) {
  Numbers numbers(kUsed);
  for (std::uint32_t i = 0; i < kUsed; ++i) numbers[i] = (first + i * step) % kBlocks;
  return numbers;
}

std::byte contents_of(std::uint64_t block, int step) {
  return static_cast<std::byte>(block * 7 + static_cast<std::uint64_t>(step) + 1);
}

/// The contents of a cache that has the request's blocks of this step.
std::vector<std::byte> expected_cache(const Numbers& numbers, int step) {
  std::vector<std::byte> all(kBlocks * kBlockBytes);
  for (std::uint64_t i = 0; i < kUsed; ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(numbers[i] * kBlockBytes);
    std::fill_n(begin, kBlockBytes, contents_of(i, step));
  }
  return all;
}

Result<bool> prefill(Endpoint& peer, const Region& cache, const Region& message) {
  HBMWIRE_TRY_ASSIGN(const auto theirs, peer.remote("kv", 10s));
  // The decoder's block numbers come as a message.
  HBMWIRE_TRY_ASSIGN(auto told, peer.receive(message.slice()));
  HBMWIRE_TRY(told.wait(10s));
  const Numbers from = make_numbers(3, 5);
  Numbers to(kUsed);
  std::memcpy(to.data(), message.host_bytes().data(), kUsed * sizeof(std::uint32_t));

  // One region here. A cache with a region for each layer would have a table of several areas.
  HBMWIRE_TRY_ASSIGN(const auto from_table, cache.blocks(kBlockBytes));
  HBMWIRE_TRY_ASSIGN(const auto to_table, theirs.blocks(kBlockBytes));
  for (int step = 0; step < kSteps; ++step) {
    HBMWIRE_TRY(cache.write(0, expected_cache(from, step), 10s));
    HBMWIRE_TRY_ASSIGN(auto moved,
                       peer.put_blocks(from_table, from, to_table, to, {.immediate = kRequest}));
    HBMWIRE_TRY(moved.wait(10s));
    if (step == 0) std::printf("moved: %s\n", describe(moved.explain()).c_str());
    // The decoder tells when it has used the blocks.
    HBMWIRE_TRY_ASSIGN(auto used, peer.receive(message.slice()));
    HBMWIRE_TRY(used.wait(10s));
  }
  return true;
}

Result<bool> decode(Endpoint& peer, const Region& cache, const Region& message) {
  const Numbers numbers = make_numbers(200, 11);
  std::memcpy(message.host_bytes().data(), numbers.data(), kUsed * sizeof(std::uint32_t));
  HBMWIRE_TRY_ASSIGN(auto told, peer.send(message.slice()));
  HBMWIRE_TRY(told.wait(10s));
  std::vector<std::byte> all(kBlocks * kBlockBytes);
  for (int step = 0; step < kSteps; ++step) {
    // The receive is over when the number has come. The blocks have come before it, and the card
    // sees them.
    HBMWIRE_TRY_ASSIGN(auto arrived, peer.receive_immediate(cache.slice()));
    HBMWIRE_TRY(arrived.wait(20s));
    if (arrived.value() != kRequest) return false;
    HBMWIRE_TRY(cache.read(0, all, 10s));
    if (all != expected_cache(numbers, step)) return false;
    HBMWIRE_TRY_ASSIGN(auto used, peer.send(message.slice(0, 1)));
    HBMWIRE_TRY(used.wait(10s));
  }
  std::printf("verified: %d times %u blocks\n", kSteps, static_cast<unsigned>(kUsed));
  HBMWIRE_TRY(peer.wait_closed(10s));
  return true;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context,
                     Context::create({.memory = {}, .paths = {.require = Path::zero_copy}}));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region cache,
                     context.allocate_region(MemoryType::gaudi, kBlocks * kBlockBytes,
                                             Access::local_write | Access::remote_write));
  HBMWIRE_TRY(cache.write(0, std::vector<std::byte>(cache.size_bytes()), 10s));
  HBMWIRE_TRY_ASSIGN(const Region message,
                     context.allocate_region(MemoryType::host, kUsed * sizeof(std::uint32_t),
                                             Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(auto peer, Endpoint::connect(worker, arguments.front(), 10s));
    return prefill(peer, cache, message);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(auto listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("kv", cache));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(auto peer, listener.accept(30s));
  return decode(peer, cache, message);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kv_cache listen PORT | kv_cache NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "kv_cache: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
