// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <hbmwire.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

/// Two ends in one process, made only by the C interface.
namespace hbmwire::c_test {

inline constexpr std::int64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kBytes = 4096;
inline constexpr hbmwire_access kAll = HBMWIRE_ACCESS_LOCAL_WRITE | HBMWIRE_ACCESS_REMOTE_WRITE |
                                       HBMWIRE_ACCESS_REMOTE_READ | HBMWIRE_ACCESS_REMOTE_ATOMIC;

template <auto kFree>
struct Freed {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    kFree(handle);
  }
};

using Context = std::unique_ptr<hbmwire_context, Freed<hbmwire_context_free>>;
using Allocation = std::unique_ptr<hbmwire_allocation, Freed<hbmwire_allocation_free>>;
using Region = std::unique_ptr<hbmwire_region, Freed<hbmwire_region_free>>;
using Worker = std::unique_ptr<hbmwire_worker, Freed<hbmwire_worker_free>>;
using Listener = std::unique_ptr<hbmwire_listener, Freed<hbmwire_listener_free>>;
using Endpoint = std::unique_ptr<hbmwire_endpoint, Freed<hbmwire_endpoint_free>>;
using Pending = std::unique_ptr<hbmwire_pending_endpoint, Freed<hbmwire_pending_endpoint_free>>;
using PendingRegion = std::unique_ptr<hbmwire_pending_region, Freed<hbmwire_pending_region_free>>;
using Remote = std::unique_ptr<hbmwire_remote_region, Freed<hbmwire_remote_region_free>>;
using Transfer = std::unique_ptr<hbmwire_transfer, Freed<hbmwire_transfer_free>>;
using Key = std::unique_ptr<hbmwire_memory_key, Freed<hbmwire_memory_key_free>>;
using RemoteKey = std::unique_ptr<hbmwire_remote_key, Freed<hbmwire_remote_key_free>>;
using Group = std::unique_ptr<hbmwire_group, Freed<hbmwire_group_free>>;
using Exchanged = std::unique_ptr<hbmwire_exchanged, Freed<hbmwire_exchanged_free>>;
using Report = std::unique_ptr<hbmwire_report, Freed<hbmwire_report_free>>;

/// The error of a call in a test.
struct Failure {
  Failure() { hbmwire_error_init(&error, sizeof error); }

  [[nodiscard]] std::string text() const {
    char sentence[512];
    hbmwire_error_describe(&error, sentence, sizeof sentence);
    return sentence;
  }

  hbmwire_error error;
};

/// A structure as initialised by its _init() function.
template <auto kInit, class T>
T initialised() {
  T made;
  kInit(&made, sizeof made);
  return made;
}

#define HBMWIRE_MADE(type) ::hbmwire::c_test::initialised<type##_init, type>()

/// Returns the handle from `call(&handle, &error)`, which must succeed.
template <class Handle, class Call>
Handle make(const Call& call) {
  typename Handle::pointer raw = nullptr;
  Failure failed;
  EXPECT_EQ(call(&raw, &failed.error), HBMWIRE_OK) << failed.text();
  return Handle(raw);
}

/// Expects that `call(&error)` succeeds.
template <class Call>
void good(const Call& call) {
  Failure failed;
  EXPECT_EQ(call(&failed.error), HBMWIRE_OK) << failed.text();
}

/// Expects that `call(&error)` fails with this status and gives a reason.
template <class Call>
std::string refused(hbmwire_status status, const Call& call) {
  Failure failed;
  EXPECT_EQ(call(&failed.error), status) << failed.text();
  EXPECT_EQ(failed.error.code, status);
  EXPECT_NE(failed.text(), "");
  return failed.text();
}

[[nodiscard]] Context make_context(const hbmwire_context_options* options = nullptr);
[[nodiscard]] Worker make_worker(const Context& context,
                                 const hbmwire_worker_options* options = nullptr);
[[nodiscard]] Region make_region(const Context& context,
                                 hbmwire_memory_type type = HBMWIRE_MEMORY_HOST,
                                 std::uint64_t size = kBytes, hbmwire_access access = kAll);

/// set() fills a region; the other function checks that all bytes have a value.
void set(const Region& region, unsigned char value);
[[nodiscard]] bool has(const Region& region, unsigned char value, std::uint64_t length = kBytes);

/// Two workers connected with each other; `b` was accepted. Each end has a region; that of b is
/// advertised as "target".
struct Ends {
  explicit Ends(hbmwire_memory_type type = HBMWIRE_MEMORY_HOST,
                const hbmwire_endpoint_options* options = nullptr,
                const hbmwire_worker_options* workers = nullptr);

  /// Drives both workers once.
  void drive() const {
    hbmwire_worker_progress(a_worker.get());
    hbmwire_worker_progress(b_worker.get());
  }

  /// Drives both workers until `over()`; fails after ten seconds.
  template <class Over>
  void until(const Over& over) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!over()) {
      drive();
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << "not over in time";
      return;
    }
  }

  /// Drives both workers until a transfer has ended, and expects success.
  void finish(hbmwire_transfer* transfer) const;

  void finish(const Transfer& transfer) const { finish(transfer.get()); }

  [[nodiscard]] std::string address() const;
  [[nodiscard]] Remote target() const;

  [[nodiscard]] hbmwire_slice here(std::uint64_t offset = 0, std::uint64_t length = kBytes) const {
    return {a_region.get(), offset, length};
  }

  [[nodiscard]] hbmwire_slice there(std::uint64_t offset = 0, std::uint64_t length = kBytes) const {
    return {b_region.get(), offset, length};
  }

  Context context;
  Worker a_worker, b_worker;
  Region a_region, b_region;
  Listener listener;
  Endpoint a, b;
};

}  // namespace hbmwire::c_test
