// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "emulation/tests/conformance/handles.hpp"

/// What every case of the suite builds on. Nothing here, nor in the cases, knows which device it
/// runs on: what a device does not offer is asked of the device.
namespace hbmwire::conformance {

struct Settings {
  std::string device;  // empty: the first
  std::uint8_t port = 1;
  int gid_index = -1;  // -1: chosen, RoCE v2 over IPv4 first
  /// Local ACK Timeout of connections, as ibv_modify_qp(3) codes it. 10 is 4.2 ms: short, since it
  /// is waited for in earnest.
  std::uint8_t ack_timeout = 10;
  bool as_rxe = false;  // outcome_table.cpp: rxe's outcomes are expected where they differ
};

Settings& settings();

/// Where it is written what the running case expects; printed when it fails. Each case names one.
void source(std::string text);

/// No wait of the suite is longer.
inline constexpr std::chrono::milliseconds kPatience{5000};

/// Calls `done` until it says so; false after `patience`.
bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds patience = kPatience);

/// "EINVAL (22, Invalid argument)", for the messages.
std::string errno_name(int error);

const char* name_of(ibv_qp_type type);
const char* name_of(ibv_qp_state state);

inline constexpr int kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;

/// The device under test, opened, with what it says of itself, and a protection domain.
class Nic {
 public:
  Nic();

  [[nodiscard]] ibv_context* context() const { return context_.get(); }

  [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }

  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }

  [[nodiscard]] const ibv_port_attr& port() const { return port_; }

  [[nodiscard]] const ibv_gid& gid() const { return gid_; }

  [[nodiscard]] std::uint8_t gid_index() const { return gid_index_; }

  [[nodiscard]] std::uint32_t mtu_bytes() const {
    return 128U << static_cast<unsigned>(port_.active_mtu);
  }

  /// The way from this port to itself or to another QP behind it.
  [[nodiscard]] ibv_ah_attr path() const;

  [[nodiscard]] bool is_ethernet() const { return port_.link_layer == IBV_LINK_LAYER_ETHERNET; }

  // Why the device does not offer something; empty when it does. For HBMWIRE_NEED.
  [[nodiscard]] std::string lacks(ibv_qp_type type) const;
  [[nodiscard]] std::string lacks_flag(unsigned flag, const char* what) const;
  [[nodiscard]] std::string lacks_srq() const;
  [[nodiscard]] std::string lacks_atomics() const;
  [[nodiscard]] std::string lacks_multicast() const;
  [[nodiscard]] std::string lacks_windows(ibv_mw_type type) const;

  Cq make_cq(int depth = 64, ibv_comp_channel* channel = nullptr, void* cookie = nullptr) const;
  Channel make_channel() const;
  Pd make_pd() const;
  Xrcd make_xrcd() const;
  Mr make_mr(ibv_pd* pd, void* address, std::size_t length, int access) const;

  /// The next asynchronous event of this kind, acknowledged; a failure when it does not come.
  /// `element`, unless null, is the QP, CQ or SRQ that it must name. Others are passed over.
  bool expect_event(ibv_event_type type, const void* element = nullptr) const;

  /// Whether one comes within a short while, in which it should not.
  void expect_no_event(ibv_event_type type) const;

  /// Whether an event waits to be read, or comes in time.
  [[nodiscard]] bool has_event(std::chrono::milliseconds patience = kPatience) const;

  /// The next event whatever it is, not acknowledged.
  std::optional<ibv_async_event> next_event(std::chrono::milliseconds patience) const;

 private:
  void choose_gid();

  Context context_;
  Pd pd_;
  ibv_device_attr limits_{};
  ibv_port_attr port_{};
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
};

/// Throws what a case can't go on without: GoogleTest makes it a failure with this sentence.
template <typename T>
T* need(T* object, const char* what) {
  if (object == nullptr) throw std::runtime_error(std::string(what) + ": " + errno_name(errno));
  return object;
}

class Conformance : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Nic nic;
};

/// For the cases that have a row of a table as parameter.
template <typename Row>
class ConformanceOf : public Conformance, public ::testing::WithParamInterface<Row> {};

}  // namespace hbmwire::conformance

/// Leaves the case, skipped and counted, when the device lacks something; the argument is a
/// sentence that says so, or empty.
#define HBMWIRE_NEED(...) \
  if (const std::string lacking_ = (__VA_ARGS__); !lacking_.empty()) GTEST_SKIP() << lacking_
