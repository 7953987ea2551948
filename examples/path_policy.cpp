// SPDX-License-Identifier: MIT
// Sets the paths that memory may take, and shows why it took the path that it took.
//
//   node2$ path_policy listen 7000
//   node1$ path_policy node2:7000
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 1 << 20;
const std::vector<std::byte> kContents(kBytes, std::byte{42});

/// Prints each path of a region, the best first: that it was taken, or why not.
void print_paths(const Region& region) {
  for (const auto& tried : region.explain()) {
    std::printf("%s: %s\n", std::string(to_string(tried.path)).c_str(),
                tried.taken     ? "taken"
                : tried.refusal ? describe(*tried.refusal).c_str()
                                : "not there");
  }
}

Result<bool> put(Endpoint& peer, const Region& memory) {
  HBMWIRE_TRY(memory.write(0, kContents, 10s));
  HBMWIRE_TRY_ASSIGN(const auto theirs, peer.remote("memory", 10s));
  HBMWIRE_TRY_ASSIGN(Transfer put, peer.put(memory.slice(), theirs.slice()));
  HBMWIRE_TRY(put.wait(10s));
  std::printf("%s\n", describe(put.explain()).c_str());
  HBMWIRE_TRY(peer.close(10s));
  return put.path() == Path::zero_copy;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  // For all memory of this process: none of it may be staged. Memory that no allowed path reaches
  // is refused when it is registered, with the reason.
  HBMWIRE_TRY_ASSIGN(
      const Context context,
      Context::create({.memory = {}, .paths = {.allow = {Path::host, Path::zero_copy}}}));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::gaudi, kBytes,
                                             Access::local_write | Access::remote_write));
  if (arguments.front() != "listen") {
    print_paths(memory);
    // For this endpoint: device memory only by its dma-buf.
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s,
                                                        {.paths = {.require = Path::zero_copy}}));
    return put(peer, memory);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("memory", memory));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY(peer.wait_closed(30s));
  std::vector<std::byte> contents(kBytes);
  HBMWIRE_TRY(memory.read(0, contents, 10s));
  std::printf("%s\n", contents == kContents ? "verified" : "other bytes than were put");
  return contents == kContents;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: path_policy listen PORT | path_policy NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "path_policy: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
