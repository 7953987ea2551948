// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <thread>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "internals.hpp"
#include "tests/library/emulated_hooks.hpp"

// An endpoint leaves no resource behind, whatever fails, and however often.
namespace hbmwire::test {
namespace {

/// Connects, works and closes; both ends are in this process.
Result<void> life_of_an_endpoint() {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker a, Worker::create(context, {.max_transfers = 16}));
  HBMWIRE_TRY_ASSIGN(Worker b, Worker::create(context, {.max_transfers = 16}));
  const EndpointOptions options{.peer_timeout = 50ms};
  HBMWIRE_TRY_ASSIGN(Listener listener,
                     Listener::create(b, {.address = "127.0.0.1", .port = 0, .endpoint = options}));
  HBMWIRE_TRY_ASSIGN(const Allocation memory, context.allocate(MemoryType::host, 4096));
  HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory, kAll));
  HBMWIRE_TRY(listener.advertise("target", region));
  std::atomic<bool> over{false};
  std::thread accepting([&] {
    std::optional<Endpoint> accepted;
    while (!over) {
      if (auto next = listener.accept(within(2ms))) accepted.emplace(std::move(*next));
    }
  });
  const auto work = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(
        Endpoint endpoint,
        Endpoint::connect(a, "127.0.0.1:" + std::to_string(listener.port()), within(2s), options));
    HBMWIRE_TRY_ASSIGN(const RemoteRegion target, endpoint.remote("target", within(2s)));
    HBMWIRE_TRY_ASSIGN(Transfer put, endpoint.put(region.slice(0, 64), target.slice(64, 64)));
    HBMWIRE_TRY_ASSIGN(Transfer get, endpoint.get(region.slice(128, 64), target.slice(0, 64)));
    HBMWIRE_TRY_ASSIGN(Transfer add, endpoint.fetch_add(target.slice(256, 8), 1));
    HBMWIRE_TRY_ASSIGN(const BlockTable here, region.blocks(64));
    HBMWIRE_TRY_ASSIGN(const RemoteBlockTable there, target.blocks(64));
    constexpr std::array<std::uint32_t, 3> kFrom{8, 20, 21};
    constexpr std::array<std::uint32_t, 3> kTo{30, 10, 11};
    HBMWIRE_TRY_ASSIGN(Transfer blocks, endpoint.put_blocks(here, kFrom, there, kTo));
    HBMWIRE_TRY(blocks.wait(2s));
    HBMWIRE_TRY(put.wait(2s));
    HBMWIRE_TRY(get.wait(2s));
    HBMWIRE_TRY(add.wait(2s));
    return endpoint.close(within(2s));
  };
  const auto worked = work();
  over = true;
  accepting.join();
  return worked;
}

TEST(EndpointSweep, EachFailureLeavesNothingBehind) {
  set_log_sink([](LogLevel, std::string_view) {});
  for (int i = 0; i < 3; ++i) good(life_of_an_endpoint());
  ASSERT_EQ(live_nic_objects(), "");
  const int descriptors = open_descriptors();
  int failures = 0;
  // Polls count as calls, too, so there are many calls that hardly differ. Fails each of the first
  // 120, then one in 97.
  for (long n = 0; n < 4000; n += n < 120 ? 1 : 97) {
    fail_nth_call("nic", n, EIO);
    const auto result = life_of_an_endpoint();
    // Switches the fault off, and tells how many calls were made.
    const long calls = fail_nth_call("nic", -1, 0);
    EXPECT_EQ(live_nic_objects(), "") << "after call " << n << " failed";
    // The emulated NIC's own thread keeps some descriptors after it had to wait once.
    EXPECT_LE(open_descriptors(), descriptors + 4) << "after call " << n << " failed";
    if (!result) {
      ++failures;
      EXPECT_FALSE(describe(result.error()).empty());
    }
    if (calls <= n) break;
  }
  EXPECT_GT(failures, 20) << "too few of the failed calls made the life of an endpoint fail";
  set_log_sink({});
}

/// The process' private memory in use. Leaves out the files of the emulated hardware, and memory
/// that an allocator reserves for a thread.
std::uint64_t private_bytes() {
  std::uint64_t mapped = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  std::ifstream("/proc/self/statm") >> mapped >> resident >> shared;
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(EndpointSoak, AThousandConnectionsLeaveNothing) {
  Ends ends({.receive_depth = 4, .eager_bytes = 64});
  const auto cycle = [&] {
    std::optional<Endpoint> accepted;
    std::thread accepting([&] { accepted.emplace(value(ends.listener.accept(within(20s)))); });
    auto endpoint = Endpoint::connect(ends.a_worker, ends.a->peer(), within(20s),
                                      {.receive_depth = 4, .eager_bytes = 64});
    accepting.join();
    ASSERT_TRUE(endpoint) << describe(endpoint.error());
  };
  // An endpoint is destroyed when its worker makes progress.
  const auto settle = [&] {
    ends.drive([&] {
      return internals::count_endpoints(ends.a_worker) == 1 &&
             internals::count_endpoints(ends.b_worker) == 1;
    });
  };
  // Some resources are made once and kept, so these cycles come before the first count.
  for (int i = 0; i < 20; ++i) {
    cycle();
    settle();
  }
  const std::string objects = live_nic_objects();
  const int descriptors = open_descriptors();
  const std::uint64_t memory = private_bytes();
  for (int i = 0; i < 1000 && !HasFatalFailure(); ++i) {
    cycle();
    settle();
  }
  EXPECT_EQ(live_nic_objects(), objects);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_LE(private_bytes(), memory + allocator_slack_bytes());
}

}  // namespace
}  // namespace hbmwire::test
