// SPDX-License-Identifier: MIT
// A program of a user that communicates: it moves memory of a Gaudi into a GPU's memory through an
// endpoint.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <hbmwire/buffer.hpp>
#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 100'000;

Wait soon() { return {Deadline::after(20s)}; }

Result<Buffer> make(const Context& context, MemoryType type, Access access) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory, context.allocate(type, kBytes));
  HBMWIRE_TRY_ASSIGN(const Region region,
                     context.register_memory(memory, access | Access::local_write));
  return Buffer::create(region);
}

Result<void> serve(const Worker& worker, Listener listener) {
  HBMWIRE_TRY_ASSIGN(const Endpoint peer, listener.accept(soon()));
  Worker driven = worker;
  while (peer.phase() == EndpointPhase::ready) HBMWIRE_TRY(driven.wait(soon()));
  return {};
}

Result<void> run() {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Buffer from, make(context, MemoryType::gaudi, Access::none));
  HBMWIRE_TRY_ASSIGN(Buffer to,
                     make(context, MemoryType::cuda, Access::remote_write | Access::remote_read));
  const std::vector<std::byte> sent(kBytes, std::byte{7});
  HBMWIRE_TRY(from.write(0, sent, soon()));

  HBMWIRE_TRY_ASSIGN(const Worker serving, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(serving, {.address = "127.0.0.1"}));
  HBMWIRE_TRY(listener.advertise("there", to.region()));
  std::jthread peer([&] {
    if (const auto served = serve(serving, listener); !served)
      std::fprintf(stderr, "%s\n", describe(served.error()).c_str());
  });
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(
      Endpoint endpoint,
      Endpoint::connect(worker, "127.0.0.1:" + std::to_string(listener.port()), soon()));
  HBMWIRE_TRY_ASSIGN(const RemoteRegion remote, endpoint.remote("there", soon()));
  HBMWIRE_TRY_ASSIGN(Transfer put,
                     endpoint.put(from.region().slice(0, kBytes), remote.slice(0, kBytes),
                                  {.level = CompletionLevel::visible}));
  HBMWIRE_TRY(put.wait(10s));
  std::printf("endpoint: %s\n", describe(put.explain()).c_str());
  std::vector<std::byte> received(kBytes);
  HBMWIRE_TRY(to.read(0, received, soon()));
  if (received == sent && put.path() == Path::nic_loopback) return {};
  return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify, "comparing"));
}

}  // namespace

int main() {
  const auto done = run();
  if (!done) std::fprintf(stderr, "endpoint: %s\n", describe(done.error()).c_str());
  return done ? 0 : 1;
}
