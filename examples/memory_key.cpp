// SPDX-License-Identifier: MIT
// Opens a part of a region to one peer, by a key that travels as a message, and then revokes it.
//
//   node2$ memory_key listen 7000
//   node1$ memory_key node2:7000
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>
#include <hbmwire/memory_key.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 65536;
constexpr std::uint64_t kOpen = 4096;  // bytes that the key opens, from the first one on

Result<bool> write(Endpoint& peer, const Region& memory) {
  HBMWIRE_TRY_ASSIGN(auto message, peer.receive(memory.slice()));
  HBMWIRE_TRY(message.wait(10s));
  HBMWIRE_TRY_ASSIGN(const auto theirs, peer.remote(memory.host_bytes().first(message.bytes())));
  std::memset(memory.host_bytes().data(), 7, kOpen);
  HBMWIRE_TRY_ASSIGN(auto put, peer.put(memory.slice(0, kOpen), theirs.slice()));
  HBMWIRE_TRY(put.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  return theirs.length_bytes() == kOpen;
}

Result<bool> lend(Endpoint& peer, const Context& context, const Region& message) {
  // Not open to peers: only keys give access to this memory.
  HBMWIRE_TRY_ASSIGN(const auto secret,
                     context.allocate_region(MemoryType::host, kBytes, Access::local_write));
  std::memset(secret.host_bytes().data(), 0, kBytes);
  HBMWIRE_TRY_ASSIGN(auto key, MemoryKey::pack(secret, {.length_bytes = kOpen,
                                                        .access = Access::remote_write,
                                                        .revocable = true}));
  std::memcpy(message.host_bytes().data(), key.bytes().data(), key.bytes().size());
  HBMWIRE_TRY_ASSIGN(auto told, peer.send(message.slice(0, key.bytes().size())));
  HBMWIRE_TRY(told.wait(10s));
  HBMWIRE_TRY(peer.wait_closed(10s));
  HBMWIRE_TRY(key.revoke());  // from now on no NIC accepts it
  const auto bytes = secret.host_bytes();
  const bool right = bytes[kOpen - 1] == std::byte{7} && bytes[kOpen] == std::byte{0};
  std::printf("%s\n", right ? "verified" : "other bytes than were put");
  return right;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const auto context, Context::create());
  HBMWIRE_TRY_ASSIGN(const auto worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const auto message,
                     context.allocate_region(MemoryType::host, kBytes, Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(auto peer, Endpoint::connect(worker, arguments.front(), 10s));
    return write(peer, message);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(auto listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(auto peer, listener.accept(30s));
  return lend(peer, context, message);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: memory_key listen PORT | memory_key NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "memory_key: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
