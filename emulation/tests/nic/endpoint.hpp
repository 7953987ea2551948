// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulation/tests/nic/verbs_handles.hpp"
#include "tests/support/open_descriptors.hpp"

namespace hbmwire::test {

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr std::size_t kMiB = 1U << 20U;
inline constexpr std::uint8_t kGidIndex = 3;  // IPv4-mapped, RoCE v2

/// Opens a device of the machine. Returns null if there is none of that name.
Context open_device(const char* name = "emu0");

/// The Q_Key of the UD endpoints. Its highest bit is clear, so it is not a controlled one.
inline constexpr std::uint32_t kQkey = 0x11111111;

/// The facts about an endpoint that its peer needs.
struct Address {
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  ibv_gid gid{};
  std::uint64_t buffer = 0;
  std::uint32_t rkey = 0;
};

/// The times and retries of a connection, in the encodings of ibv_qp_attr.
struct Timing {
  std::uint8_t timeout = 10;  // 4.2 ms
  std::uint8_t retry_count = 1;
  std::uint8_t rnr_retry = 1;
  std::uint8_t min_rnr_timer = 1;  // 10 us
};

/// A QP with its objects and a buffer, for one side of a test.
class Endpoint {
 public:
  struct Options {
    const char* device = "emu0";
    ibv_qp_type type = IBV_QPT_RC;
    std::uint8_t port = 1;
    std::uint32_t depth = 16;
    int cq_depth = 64;
    unsigned qp_access = kAllAccess;
    int mr_access = kAllAccess;
    std::size_t bytes = 65536;
    std::uint32_t max_inline = 64;
    bool signal_all = false;
    bool with_channel = false;
    std::uint32_t srq_depth = 0;  // 0: its own receive queue
  };

  Endpoint() : Endpoint(Options{}) {}

  explicit Endpoint(const Options& options);

  [[nodiscard]] Address address() const;

  // The steps of connecting. Each returns ibv_modify_qp's result.
  int to_init();
  int to_rtr(const Address& peer, const Timing& timing = {}, ibv_mtu mtu = IBV_MTU_1024);
  int to_rts(const Timing& timing = {});

  /// Sets the state alone. Returns ibv_modify_qp's result.
  int to(ibv_qp_state state);

  /// Moves the QP to RTS.
  void connect(const Address& peer, const Timing& timing = {});

  /// A part of the buffer, for a request.
  [[nodiscard]] ibv_sge element(std::size_t offset, std::uint32_t length) const;

  // Requests with `length` bytes of the buffer from `offset` on. Each returns the result of the
  // call of libibverbs. send() and rdma() post signaled requests. `remote_offset` counts from the
  // address in `peer`.
  int post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length);
  int post_srq_recv(std::uint64_t id, std::size_t offset, std::uint32_t length);
  int post(ibv_send_wr request, std::vector<ibv_sge> elements);
  int send(std::uint64_t id, std::size_t offset, std::uint32_t length,
           unsigned flags = IBV_SEND_SIGNALED);
  int rdma(ibv_wr_opcode opcode, std::uint64_t id, std::size_t offset, std::uint32_t length,
           const Address& peer, std::size_t remote_offset = 0);

  /// The next completion; nullopt after `patience`.
  std::optional<ibv_wc> wait(std::chrono::milliseconds patience = std::chrono::seconds(5));

  /// The next asynchronous event (acknowledged); nullopt after `patience`.
  std::optional<ibv_event_type> wait_event(
      std::chrono::milliseconds patience = std::chrono::seconds(2));

  [[nodiscard]] ibv_qp_state state() const;

  /// Replaces the endpoint's QP by a new one of the same PD, CQ and SRQ. Returns the old one.
  Qp next_qp();

  // In the order in which they are created.
  std::vector<unsigned char> buffer;
  Context context;
  Channel channel;
  Pd pd;
  Cq cq;
  Mr mr;
  Srq srq;
  Qp qp;
  std::uint32_t psn = 0;  // of the first packet that this side sends

 private:
  Options options_;
};

inline const Endpoint::Options kUc{.type = IBV_QPT_UC};
inline const Endpoint::Options kWithSrq{.srq_depth = 8};

/// Two connected endpoints in this process.
struct Pair {
  explicit Pair(const Endpoint::Options& a_options = {}, const Endpoint::Options& b_options = {},
                const Timing& timing = {});
  Endpoint a;
  Endpoint b;
};

/// Waits for the next completion of `endpoint` and expects it to be `id` with `status`. Returns it.
ibv_wc expect_completion(Endpoint& endpoint, std::uint64_t id,
                         ibv_wc_status status = IBV_WC_SUCCESS);

/// The number of this process' objects of a kind ("qp", "mr" ...).
unsigned live_objects(const char* kind);

/// Makes the n-th call from now on that can fail (from 0) fail with `error_number`; a negative `n`
/// makes none fail. Returns the number of calls since the last use of this function that could
/// fail.
long fail_nth_call(long n, int error_number);

/// Bytes of messages that this process' NICs have copied since the first call.
std::uint64_t copied_bytes();

}  // namespace hbmwire::test
