// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "emulation/tests/conformance/handles.hpp"

/// The base of every case of the suite. Neither this file nor the cases know the device: they ask
/// it about features that it may lack.
namespace hbmwire::conformance {

struct Settings {
  std::string device;  // empty: the first device
  std::uint8_t port = 1;
  int gid_index = -1;  // -1: chosen, preferably RoCE v2 over IPv4
  /// The Local ACK Timeout of connections, as ibv_modify_qp(3) codes it. 10 means 4.2 ms: short,
  /// because cases really wait for it.
  std::uint8_t ack_timeout = 10;
  bool as_rxe = false;  // rxe's outcomes are expected where they differ (outcome_table.cpp)
};

Settings& settings();

/// Names the source of what the running case expects, to be printed if the case fails. Each case
/// names one.
void source(std::string text);

/// The longest wait in the suite.
inline constexpr std::chrono::milliseconds kPatience{5000};

/// Calls `done` until it returns true. Returns false after `patience`.
bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds patience = kPatience);

/// The name of an error for messages, as "EINVAL (22, Invalid argument)".
std::string errno_name(int error);

const char* name_of(ibv_qp_type type);
const char* name_of(ibv_qp_state state);

inline constexpr int kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;

/// The device under test, opened, with its attributes and a protection domain.
class Nic {
 public:
  Nic();

  [[nodiscard]] ibv_context* context() const { return context_.get(); }

  [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }

  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }

  [[nodiscard]] const ibv_port_attr& port() const { return port_; }

  [[nodiscard]] const ibv_gid& gid() const { return gid_; }

  [[nodiscard]] std::uint8_t gid_index() const { return gid_index_; }

  /// The port's MTU. The codes of MTUs begin with 1 for 256 bytes.
  [[nodiscard]] std::uint32_t mtu_bytes() const {
    return 128U << static_cast<unsigned>(port_.active_mtu);
  }

  /// The path from this port to itself, or to another QP on it.
  [[nodiscard]] ibv_ah_attr path() const;

  [[nodiscard]] bool is_ethernet() const { return port_.link_layer == IBV_LINK_LAYER_ETHERNET; }

  // The reason why the device lacks a feature, for HBMWIRE_NEED; empty if it has it.
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

  /// Waits for the next asynchronous event of this kind and acknowledges it; fails the case if none
  /// comes. Unless `element` is null, the event must name that QP, CQ or SRQ. Other events are
  /// skipped.
  bool expect_event(ibv_event_type type, const void* element = nullptr) const;

  /// Fails the case if an event of this type comes within a short while.
  void expect_no_event(ibv_event_type type) const;

  /// Whether an event can be read, or comes within `patience`.
  [[nodiscard]] bool has_event(std::chrono::milliseconds patience = kPatience) const;

  /// The next event of any kind, not acknowledged.
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

/// Throws if an object is missing that a case cannot do without. GoogleTest reports a failure with
/// this sentence.
template <typename T>
T* need(T* object, const char* what) {
  if (object == nullptr) throw std::runtime_error(std::string(what) + ": " + errno_name(errno));
  return object;
}

/// A case of the suite. The program ends if it takes 30 s; the case fails if it names no source.
class Conformance : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Nic nic;
};

/// For cases whose parameter is a row of a table.
template <typename Row>
class ConformanceOf : public Conformance, public ::testing::WithParamInterface<Row> {};

}  // namespace hbmwire::conformance

/// Skips the case (which is counted) if the device lacks a feature. The argument is a sentence that
/// says so, or empty.
#define HBMWIRE_NEED(...) \
  if (const std::string lacking_ = (__VA_ARGS__); !lacking_.empty()) GTEST_SKIP() << lacking_
