// SPDX-License-Identifier: MIT
// Puts blocks into another node's accelerator. An immediate number with each put tells that its
// block has arrived.
//
//   node2$ immediate listen 7000
//   node1$ immediate node2:7000
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kBlocks = 8;
constexpr std::uint64_t kBlockBytes = 1 << 20;

Result<bool> put(Endpoint& peer, const Region& mine) {
  HBMWIRE_TRY_ASSIGN(const auto theirs, peer.remote("blocks", 10s));
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    const std::uint64_t at = block * kBlockBytes;
    const std::vector<std::byte> contents(kBlockBytes, std::byte(block + 1));
    HBMWIRE_TRY(mine.write(at, contents, 10s));
    HBMWIRE_TRY_ASSIGN(auto moved, peer.put(mine.slice(at, kBlockBytes),
                                            theirs.slice(at, kBlockBytes), {.immediate = block}));
    HBMWIRE_TRY(moved.wait(10s));
  }
  HBMWIRE_TRY(peer.close(10s));
  return true;
}

Result<bool> take(Endpoint& peer, const Region& blocks) {
  std::vector<std::byte> contents(kBlockBytes);
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    // `written`: once the number is here, the accelerator sees the bytes that came before it.
    HBMWIRE_TRY_ASSIGN(auto number, peer.receive_immediate(blocks.slice()));
    HBMWIRE_TRY(number.wait(10s));
    HBMWIRE_TRY(blocks.read(number.value() * kBlockBytes, contents, 10s));
    const auto expected = static_cast<std::byte>(number.value() + 1);
    if (std::ranges::count(contents, expected) != std::ssize(contents)) return false;
  }
  std::printf("verified\n");
  HBMWIRE_TRY(peer.wait_closed(10s));
  return true;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::gaudi, kBlocks * kBlockBytes,
                                             Access::local_write | Access::remote_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    return put(peer, memory);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("blocks", memory));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  return take(peer, memory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: immediate listen PORT | immediate NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "immediate: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
