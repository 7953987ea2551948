// SPDX-License-Identifier: MIT
#include <cerrno>
#include <thread>

#include "ends.hpp"
#include "tests/endpoint/failing_allocations.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "tests/support/open_descriptors.hpp"

// Each allocation and each call of libibverbs fails in turn below the C interface. The functions
// return their errors, and nothing is left behind.
namespace hbmwire::c_test {
namespace {

using test::FailingAllocations;

/// The life of the handles. The first call that fails ends it; all handles are freed in any case.
class Life {
 public:
  /// Returns the first failure, or HBMWIRE_OK.
  hbmwire_status live() {
    hbmwire_status status = open();
    if (status == HBMWIRE_OK) status = connect();
    if (status == HBMWIRE_OK) status = work();
    return status;
  }

  [[nodiscard]] std::string why() const { return failed_.text(); }

 private:
  template <class Handle, class Call>
  hbmwire_status get(Handle& handle, const Call& call) {
    typename Handle::pointer raw = nullptr;
    const hbmwire_status status = call(&raw, &failed_.error);
    EXPECT_EQ(status == HBMWIRE_OK, raw != nullptr);
    EXPECT_EQ(failed_.error.code, status);
    handle.reset(raw);
    return status;
  }

#define HBMWIRE_GO(call)                                                     \
  do {                                                                       \
    if (const hbmwire_status went = (call); went != HBMWIRE_OK) return went; \
  } while (false)

  hbmwire_status open() {
    HBMWIRE_GO(get(context_, [](auto** made, auto* error) {
      return hbmwire_context_create(nullptr, made, error);
    }));
    auto options = HBMWIRE_MADE(hbmwire_worker_options);
    options.max_transfers = 16;
    for (Worker* worker : {&a_worker_, &b_worker_}) {
      HBMWIRE_GO(get(*worker, [&](auto** made, auto* error) {
        return hbmwire_worker_create(context_.get(), &options, made, error);
      }));
    }
    return get(region_, [&](auto** made, auto* error) {
      return hbmwire_context_allocate_region(context_.get(), HBMWIRE_MEMORY_HOST, kBytes, kAll,
                                             nullptr, made, error);
    });
  }

  hbmwire_status connect() {
    auto endpoint = HBMWIRE_MADE(hbmwire_endpoint_options);
    endpoint.peer_timeout_ns = kSecond / 20;  // a life that fails ends soon
    auto options = HBMWIRE_MADE(hbmwire_listener_options);
    options.address = "127.0.0.1";
    options.endpoint = &endpoint;
    HBMWIRE_GO(get(listener_, [&](auto** made, auto* error) {
      return hbmwire_listener_create(b_worker_.get(), &options, made, error);
    }));
    HBMWIRE_GO(hbmwire_listener_advertise(listener_.get(), "target", region_.get(), nullptr,
                                          &failed_.error));
    char address[32];
    hbmwire_join_host_port("127.0.0.1", hbmwire_listener_port(listener_.get()), address,
                           sizeof address);
    Pending pending;
    HBMWIRE_GO(get(pending, [&](auto** made, auto* error) {
      return hbmwire_endpoint_start_connect(a_worker_.get(), address, 2 * kSecond, &endpoint, made,
                                            error);
    }));
    HBMWIRE_GO(drive(hbmwire_pending_endpoint_transfer(pending.get())));
    return get(a_, [&](auto** made, auto* error) {
      return hbmwire_pending_endpoint_take(pending.get(), made, error);
    });
  }

  hbmwire_status work() {
    PendingRegion asking;
    HBMWIRE_GO(get(asking, [&](auto** made, auto* error) {
      return hbmwire_endpoint_start_remote(a_.get(), "target", 2 * kSecond, made, error);
    }));
    HBMWIRE_GO(drive(hbmwire_pending_region_transfer(asking.get())));
    Remote remote;
    HBMWIRE_GO(get(remote, [&](auto** made, auto* error) {
      return hbmwire_pending_region_take(asking.get(), made, error);
    }));
    const hbmwire_slice from{region_.get(), 0, 64};
    const hbmwire_remote_slice to{remote.get(), 64, 64};
    Transfer put;
    HBMWIRE_GO(get(put, [&](auto** made, auto* error) {
      return hbmwire_endpoint_put(a_.get(), &from, &to, nullptr, made, error);
    }));
    HBMWIRE_GO(drive(put.get()));
    Report report;
    HBMWIRE_GO(get(report, [&](auto** made, auto* error) {
      return hbmwire_transfer_explain(put.get(), made, error);
    }));
    Key key;
    HBMWIRE_GO(get(key, [&](auto** made, auto* error) {
      return hbmwire_memory_key_pack(region_.get(), nullptr, made, error);
    }));
    Transfer closing;
    HBMWIRE_GO(get(closing, [&](auto** made, auto* error) {
      return hbmwire_endpoint_start_close(a_.get(), 2 * kSecond, made, error);
    }));
    return drive(closing.get());
  }

#undef HBMWIRE_GO

  /// Drives both ends until a transfer has ended.
  hbmwire_status drive(hbmwire_transfer* transfer) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    bool over = false;
    while (!over) {
      hbmwire_worker_progress(b_worker_.get());
      hbmwire_endpoint* accepted = nullptr;
      if (!b_ && hbmwire_listener_try_accept(listener_.get(), &accepted, nullptr) == HBMWIRE_OK)
        b_.reset(accepted);
      const hbmwire_status status = hbmwire_transfer_poll(transfer, &over, &failed_.error);
      if (status != HBMWIRE_OK) return status;
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << "not over in time";
      return HBMWIRE_TIMED_OUT;
    }
    return HBMWIRE_OK;
  }

  Failure failed_;
  Context context_;
  Worker a_worker_, b_worker_;
  Region region_;
  Listener listener_;
  Endpoint a_, b_;
};

/// Runs one life, and returns its result.
hbmwire_status live(std::string& why) {
  Life life;
  const hbmwire_status status = life.live();
  why = life.why();
  return status;
}

void hush() {
  hbmwire_set_log_sink([](void*, hbmwire_log_level, const char*, std::size_t) {}, nullptr, nullptr);
}

TEST(CSweep, EachAllocationThatFailsIsAnErrorAndLeavesNothing) {
  hush();
  std::string why;
  // The process makes some objects in the first lives, and keeps them.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(live(why), HBMWIRE_OK) << why;
  const int descriptors = test::open_descriptors();
  // The text of `why`, and a few objects that the process makes once when it first fails. The limit
  // is for all lives together, so that a leak in each failure would exceed it.
  constexpr std::int64_t kOnce = 4;
  const std::int64_t allocations = FailingAllocations::live() + 1 + kOnce;
  int failures = 0;
  // All of the first allocations, which open and connect; then some of the others.
  for (long nth = 1; !HasFailure(); nth += nth < 200 ? 1 : 23) {
    FailingAllocations::arm(nth, false);
    const hbmwire_status status = live(why);
    FailingAllocations::disarm();
    const bool met = FailingAllocations::failed();
    if (status != HBMWIRE_OK) {
      ++failures;
      EXPECT_NE(why, "") << nth;
      EXPECT_TRUE(status == HBMWIRE_EXHAUSTED || status == HBMWIRE_PEER_FAILED ||
                  status == HBMWIRE_CANCELLED || status == HBMWIRE_TIMED_OUT)
          << "allocation " << nth << ": " << why;
    }
    EXPECT_EQ(test::live_nic_objects(), "") << "after allocation " << nth << " failed";
    EXPECT_LE(test::open_descriptors(), descriptors) << "after allocation " << nth << " failed";
    // Threads of the process release their resources a little later.
    const auto longest = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (FailingAllocations::live() > allocations && std::chrono::steady_clock::now() < longest)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(FailingAllocations::live(), allocations) << "after allocation " << nth << " failed";
    if (!met) break;
  }
  EXPECT_GT(failures, 50);
  ASSERT_EQ(live(why), HBMWIRE_OK) << why;
}

TEST(CSweep, EachCallOfLibibverbsThatFailsIsAnErrorAndLeavesNothing) {
  hush();
  std::string why;
  // The process makes some objects in the first lives, and keeps them.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(live(why), HBMWIRE_OK) << why;
  ASSERT_EQ(test::live_nic_objects(), "");
  const int descriptors = test::open_descriptors();
  int failures = 0;
  // Polls count as calls, too. Later calls hardly differ from each other, so most are left out.
  for (long n = 0; n < 3000 && !HasFailure(); n += n < 120 ? 1 : 97) {
    test::fail_nth_call("nic", n, EIO);
    const hbmwire_status status = live(why);
    const long counted = test::fail_nth_call("nic", -1, 0);
    EXPECT_EQ(test::live_nic_objects(), "") << "after call " << n << " failed";
    // The emulated NIC's own thread keeps some descriptors after it had to wait once.
    EXPECT_LE(test::open_descriptors(), descriptors + 4) << "after call " << n << " failed";
    if (status != HBMWIRE_OK) {
      ++failures;
      EXPECT_NE(why, "") << n;
    }
    if (counted <= n) break;
  }
  EXPECT_GT(failures, 20);
  ASSERT_EQ(live(why), HBMWIRE_OK) << why;
}

}  // namespace
}  // namespace hbmwire::c_test
