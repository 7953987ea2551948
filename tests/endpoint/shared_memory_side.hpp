// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "tests/support/mappings.hpp"
#include "tests/support/other_process.hpp"
#include "transport/shared/ring.hpp"

/// Two processes of a node that reach each other's host memory.
namespace hbmwire::test {

using Clock = std::chrono::steady_clock;

/// Extra time for a busy machine.
inline constexpr auto kNodeSlack = 2s;

/// The options of one end.
struct NodeOptions {
  std::uint64_t bytes = 1 << 20;  ///< size of its memory
  bool shared = true;             ///< other processes can map it
  std::vector<std::string> nics = {"emu0"};
  PathPolicy paths = {};
  WorkerOptions worker = {};
  EndpointOptions endpoint = {};
  bool revocable = false;  ///< "target" may be revoked
  bool logs = false;       ///< its log is printed
};

/// A process' context, worker, and memory filled with zeros.
struct NodeSide {
  explicit NodeSide(const NodeOptions& options)
      : context(
            value(Context::create({.memory = {}, .nics = options.nics, .paths = options.paths}))),
        worker(value(Worker::create(context, options.worker))),
        memory(value(context.allocate(MemoryType::host, options.bytes,
                                      {.device = {}, .host = {.shared = options.shared}}))),
        region(value(context.register_memory(memory, kAll))) {}

  [[nodiscard]] Slice slice(std::uint64_t offset, std::uint64_t length) const {
    return region.slice(offset, length);
  }

  /// The bytes of the memory, which is host memory.
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {std::bit_cast<std::byte*>(memory.address()), region.size_bytes()};
  }

  void fill(unsigned seed) const {
    std::ranges::copy(pattern(region.size_bytes(), seed), bytes().begin());
  }

  /// Polls until `over`; fails the test after `time`. Yields the CPU to other processes.
  template <class Over>
  bool poll_until(const Over& over, std::chrono::nanoseconds time = 20s) {
    const Deadline deadline = Deadline::after(time);
    for (int idle = 0; !over();) {
      if (worker.progress() != 0) {
        idle = 0;
      } else if (++idle % 64 == 0) {
        std::this_thread::yield();
      }
      if (!deadline.passed()) continue;
      ADD_FAILURE() << "not over in time";
      return false;
    }
    return true;
  }

  void poll_for(std::chrono::nanoseconds time) {
    const Deadline deadline = Deadline::after(time);
    while (!deadline.passed()) {
      if (worker.progress() == 0) std::this_thread::yield();
    }
  }

  /// Waits for the transfer, and expects success.
  void finish(Transfer& transfer) {
    if (!poll_until([&] { return transfer.done(); })) return;
    const auto over = transfer.poll();
    EXPECT_TRUE(over) << describe(over.error());
  }

  Context context;
  Worker worker;
  Allocation memory;
  Region region;
};

/// The listening side, in a process of its own. "target" is its memory.
struct Served : NodeSide {
  /// Sends its port, and returns when a peer has connected.
  Served(const NodeOptions& options, const Talk& talk)
      : NodeSide(options),
        listener(value(
            Listener::create(worker, {.address = "127.0.0.1", .endpoint = options.endpoint}))) {
    good(listener.advertise("target", region, {.revocable = options.revocable}));
    talk.tell(listener.port());
    accept();
  }

  /// Accepts the next peer as `endpoint`.
  void accept() { endpoint.emplace(value(listener.accept(within(60s)))); }

  /// Makes progress until the test's process tells a number, and expects `number`.
  void await(const Talk& talk, std::uint64_t number) {
    poll_until([&] { return talk.can_hear(); });
    EXPECT_EQ(talk.hear(), number);
  }

  /// Makes progress until the peer has sent a goodbye or disconnected.
  void serve() {
    while (endpoint->phase() == EndpointPhase::ready) {
      if (worker.progress() == 0) std::this_thread::yield();
    }
  }

  Listener listener;
  std::optional<Endpoint> endpoint;
};

/// A process that does `work` with an accepted end. Create it before this process opens anything.
class ServingProcess : public OtherProcess {
 public:
  using Work = std::function<void(Served&, const Talk&)>;

  ServingProcess(const NodeOptions& options, const Work& work)
      : OtherProcess([&](const Talk& talk) {
          if (!options.logs) set_log_sink([](LogLevel, std::string_view) {});
          Served served(options, talk);
          work(served, talk);
        }) {}

  explicit ServingProcess(const NodeOptions& options = {})
      : ServingProcess(options, [](Served& served, const Talk&) { served.serve(); }) {}

  /// The first call waits until the process has sent its port.
  [[nodiscard]] std::string address() const {
    if (!port_) port_ = talk().hear();
    return "127.0.0.1:" + std::to_string(*port_);
  }

 private:
  mutable std::optional<std::uint64_t> port_;
};

/// A process that forks peers whenever the test wants one. It is forked early itself, because a
/// child of a process that has opened anything cannot be used.
class Nursery : public OtherProcess {
 public:
  /// `life`: the work of each peer, with the seed that make() got.
  Nursery(const NodeOptions& options, const std::function<void(Served&, unsigned seed)>& life)
      : OtherProcess([&](const Talk& talk) {
          ::signal(SIGCHLD, SIG_IGN);
          // No time limit: it lives as long as the test.
          ::alarm(0);
          for (;;) {
            const auto seed = static_cast<unsigned>(talk.hear());
            if (::testing::Test::HasFailure()) ::_exit(1);
            if (::fork() != 0) continue;
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            set_log_sink([](LogLevel, std::string_view) {});
            talk.tell(static_cast<std::uint64_t>(::getpid()));
            Served served(options, talk);
            life(served, seed);
            ::_exit(0);
          }
        }) {}

  struct Child {
    pid_t id;
    std::string address;
  };

  /// Starts a peer, and returns when it listens.
  [[nodiscard]] Child make(unsigned seed) const {
    talk().tell(seed);
    const auto id = static_cast<pid_t>(talk().hear());
    return {id, "127.0.0.1:" + std::to_string(talk().hear())};
  }
};

/// The side that connects.
struct Asking : NodeSide {
  explicit Asking(const ServingProcess& peer, const NodeOptions& options = {})
      : Asking(peer.address(), options) {}

  explicit Asking(const std::string& address, const NodeOptions& options = {})
      : NodeSide(options),
        endpoint(value(Endpoint::connect(worker, address, within(20s), options.endpoint))),
        target(value(endpoint.remote("target", within(20s)))) {}

  [[nodiscard]] Result<Transfer> put(std::uint64_t offset, std::uint64_t length,
                                     const PutOptions& options = {}) {
    return endpoint.put(slice(offset, length), target.slice(offset, length), options);
  }

  [[nodiscard]] Result<Transfer> get(std::uint64_t offset, std::uint64_t length) {
    return endpoint.get(slice(offset, length), target.slice(offset, length));
  }

  Endpoint endpoint;
  RemoteRegion target;
};

/// How host memories are allocated, and the NIC for transfers that do not use shared memory.
struct NodeWay {
  bool shared;
  const char* nic;
};

inline constexpr std::array kNodeWays{NodeWay{true, "emu0"}, NodeWay{false, "emu0"},
                                      NodeWay{true, "none"}};

inline std::string name_of_way(const ::testing::TestParamInfo<NodeWay>& way) {
  return std::string(way.param.shared ? "shared_" : "private_") + way.param.nic;
}

/// Runs each case with each of kNodeWays. Logged warnings are no failure.
class NodeWays : public ::testing::TestWithParam<NodeWay> {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }

  [[nodiscard]] static NodeOptions options() {
    NodeOptions options;
    options.shared = GetParam().shared;
    options.nics = {GetParam().nic};
    return options;
  }
};

/// The rings that this process has mapped, its own and those of its peers.
inline std::vector<transport::SharedRingFile*> mapped_rings() {
  std::vector<transport::SharedRingFile*> rings;
  for (const std::uint64_t address : mapped_files(sizeof(transport::SharedRingFile)))
    rings.push_back(std::bit_cast<transport::SharedRingFile*>(address));
  return rings;
}

}  // namespace hbmwire::test
