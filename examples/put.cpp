// SPDX-License-Identifier: MIT
// Puts a tensor from this node's accelerator into another node's, and proves which path it took.
//
//   node2$ put listen 7000
//   node1$ put node2:7000
//
// Both sides allocate on the first Gaudi; on a machine with another accelerator write cuda or rocm.
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 64 << 20;
const std::vector<std::byte> kContents(kBytes, std::byte{42});

Result<bool> put(const Context& context, const Worker& worker, const std::string& node) {
  HBMWIRE_TRY_ASSIGN(const auto tensor,
                     context.allocate_region(MemoryType::gaudi, kBytes, Access::local_write));
  HBMWIRE_TRY(tensor.write(0, kContents, 10s));

  // Each wait has a deadline, and each error tells the remedy.
  HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, node, 10s));
  HBMWIRE_TRY_ASSIGN(const auto target, peer.remote("tensor", 10s));
  HBMWIRE_TRY_ASSIGN(Transfer transfer,
                     peer.put(tensor.slice(), target.slice(), {.level = CompletionLevel::visible}));
  HBMWIRE_TRY(transfer.wait(10s));
  std::printf("put: %s\n", describe(transfer.explain()).c_str());
  HBMWIRE_TRY(peer.close(10s));  // waits for the goodbye of the other side
  return true;
}

Result<bool> listen(const Context& context, const Worker& worker, std::uint16_t port) {
  // A put that waits for `visible` reads a byte back, hence remote_read.
  HBMWIRE_TRY_ASSIGN(
      const auto tensor,
      context.allocate_region(MemoryType::gaudi, kBytes,
                              Access::local_write | Access::remote_write | Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("tensor", tensor));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);

  // The bytes come without this process, which only answers the question for "tensor".
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY(peer.wait_closed(30s));
  std::vector<std::byte> contents(kBytes);
  HBMWIRE_TRY(tensor.read(0, contents, 10s));
  std::printf("%s\n", contents == kContents ? "verified" : "other bytes than were put");
  return contents == kContents;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  // Device memory goes only by zero-copy. Memory that cannot go by it is an error that tells why.
  HBMWIRE_TRY_ASSIGN(const Context context,
                     Context::create({.memory = {}, .paths = {.require = Path::zero_copy}}));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  if (arguments.front() != "listen") return put(context, worker, arguments.front());
  return listen(context, worker, static_cast<std::uint16_t>(std::stoi(arguments.at(1))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: put listen PORT | put NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "put: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
