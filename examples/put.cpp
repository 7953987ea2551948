// SPDX-License-Identifier: MIT
// Puts a tensor from this node's accelerator into another node's, and proves how it went there.
//
//   node2$ put listen 7000
//   node1$ put node2:7000
//
// Both sides allocate on the first Gaudi; on a machine with another accelerator write cuda or rocm.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/buffer.hpp>
#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 64 << 20;

Result<Buffer> make_tensor(const Context& context, Access access) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory, context.allocate(MemoryType::gaudi, kBytes));
  HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory, access));
  return Buffer::create(region);  // so that the host can fill and check it, whoever copies
}

Result<void> put(const Context& context, const Worker& worker, const std::string& node) {
  HBMWIRE_TRY_ASSIGN(Buffer tensor, make_tensor(context, Access::local_write));
  const std::vector<std::byte> contents(kBytes, std::byte{42});
  HBMWIRE_TRY(tensor.write(0, contents, {Deadline::after(10s)}));

  // Each wait has a deadline, and each error says what to do.
  HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, node, {Deadline::after(10s)}));
  HBMWIRE_TRY_ASSIGN(const RemoteRegion target, peer.remote("tensor", {Deadline::after(10s)}));
  HBMWIRE_TRY_ASSIGN(Transfer transfer,
                     peer.put(tensor.region().slice(0, kBytes), target.slice(0, kBytes),
                              {.level = CompletionLevel::visible}));
  HBMWIRE_TRY(transfer.wait(10s));
  std::printf("put: %s\n", describe(transfer.explain()).c_str());
  return peer.close({Deadline::after(10s)});  // waits for the goodbye of the other side
}

Result<void> listen(const Context& context, const Worker& worker, std::uint16_t port) {
  // Whoever waits for `visible` reads what it wrote, hence remote_read.
  HBMWIRE_TRY_ASSIGN(
      Buffer tensor,
      make_tensor(context, Access::local_write | Access::remote_write | Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("tensor", tensor.region()));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(const Endpoint peer, listener.accept({Deadline::after(30s)}));

  // The bytes come without this process; what it answers is the question for "tensor".
  Worker driven = worker;
  while (peer.phase() == EndpointPhase::ready) HBMWIRE_TRY(driven.wait({Deadline::after(30s)}));
  std::vector<std::byte> contents(kBytes);
  HBMWIRE_TRY(tensor.read(0, contents, {Deadline::after(10s)}));
  const bool right = std::ranges::all_of(contents, [](std::byte b) { return b == std::byte{42}; });
  std::printf("%s\n", right ? "verified" : "other bytes than were put");
  if (right) return {};
  return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify, "comparing"));
}

Result<void> run(const std::vector<std::string>& arguments) {
  // Device memory goes by no other way than zero-copy, or there is an error that says why.
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
  const auto done = run({argv + 1, argv + argc});
  if (!done) std::fprintf(stderr, "put: %s\n", describe(done.error()).c_str());
  return done ? 0 : 1;
}
