// SPDX-License-Identifier: MIT
#pragma once

#include "peer_process.hpp"

namespace hbmwire::test {

/// This process' end of a connection to a PeerProcess.
struct PeerSide {
  explicit PeerSide(const PeerProcess& peer, const EndpointOptions& options,
                    std::uint64_t bytes = PeerProcess::kBytes)
      : context(value(Context::create())),
        worker(value(Worker::create(context))),
        memory(context, MemoryType::host, bytes),
        endpoint(value(Endpoint::connect(worker, peer.address(), within(20s), options))),
        target(value(endpoint.remote("target", within(20s)))) {
    memory.fill(1);
  }

  [[nodiscard]] Result<Transfer> put(std::uint64_t bytes = 64) {
    return endpoint.put(memory.slice(0, bytes), target.slice(0, bytes));
  }

  void run_for(std::chrono::nanoseconds time) {
    const Deadline until = Deadline::after(time);
    while (!until.passed()) {
      const auto slept = worker.wait({until, -1});
      EXPECT_TRUE(slept || slept.error().code == Errc::timed_out) << describe(slept.error());
    }
  }

  /// Waits until the endpoint is no longer ready, and returns the time that this took.
  std::chrono::nanoseconds until_noticed() {
    const auto begun = std::chrono::steady_clock::now();
    const auto waited = [&] { return std::chrono::steady_clock::now() - begun; };
    while (endpoint.phase() == EndpointPhase::ready && waited() < 20s)
      static_cast<void>(worker.wait(within(20s)));
    return waited();
  }

  Context context;
  Worker worker;
  Memory memory;
  Endpoint endpoint;
  RemoteRegion target;
};

}  // namespace hbmwire::test
