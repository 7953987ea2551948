// SPDX-License-Identifier: MIT
// usage: listener_addresses tcp|rdma_cm ADDRESS
// Prints a listener's addresses and connects to each of them. Leaves out the port, which differs
// each time.
#include <cstdio>
#include <string>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

Result<void> run(bool rdma_cm, const std::string& address) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create({.memory = {MemoryType::host}}));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(Listener listener,
                     Listener::create(worker, {.address = address, .rdma_cm = rdma_cm}));
  HBMWIRE_TRY_ASSIGN(const auto addresses, listener.addresses());
  const std::string port = ":" + std::to_string(listener.port());
  for (const std::string& each : addresses) {
    HBMWIRE_TRY_ASSIGN(const Endpoint to, Endpoint::connect(worker, each, 10s));
    HBMWIRE_TRY_ASSIGN(const Endpoint from, listener.accept(10s));
    // Any error will do: only the exit code is looked at.
    if (!each.ends_with(port)) return tl::make_unexpected(from.error().value_or(Error{}));
    std::printf("%s\n", each.substr(0, each.size() - port.size()).c_str());
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: listener_addresses tcp|rdma_cm ADDRESS\n");
    return 2;
  }
  const auto done = run(std::string(argv[1]) == "rdma_cm", argv[2]);
  if (!done) std::fprintf(stderr, "listener_addresses: %s\n", describe(done.error()).c_str());
  return done ? 0 : 1;
}
