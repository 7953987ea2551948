// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// The system's librdmacm, with owning handles and one-line waits.
namespace hbmwire::test {

inline constexpr int kTimeoutMs = 2000;

/// An event as a value. librdmacm's own event has been acknowledged already.
struct CmEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_cm_id* listener;
  rdma_conn_param connection;  // its private_data is not valid any more; see `data`
  rdma_ud_param datagram;      // the same, but a MULTICAST_JOIN has the caller's context there
  std::vector<std::uint8_t> data;
};

class EventChannel {
 public:
  EventChannel() : channel_(rdma_create_event_channel()) {
    if (channel_ == nullptr) throw std::runtime_error("rdma_create_event_channel");
  }

  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  ~EventChannel() { close(); }

  void close() {
    if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
    channel_ = nullptr;
  }

  [[nodiscard]] rdma_event_channel* get() const { return channel_; }

  [[nodiscard]] int fd() const { return channel_->fd; }

  /// Whether an event comes within the time.
  [[nodiscard]] bool is_ready(int timeout_ms) const;

  /// The next event within `timeout_ms`. Returns nullopt and fails the test if none comes.
  std::optional<CmEvent> next(int timeout_ms = kTimeoutMs) const;

  /// The next event. Fails the test if it has another type or status; throws if none comes.
  CmEvent expect(rdma_cm_event_type type, int status = 0, int timeout_ms = kTimeoutMs) const;

  void set_nonblocking() const;

 private:
  rdma_event_channel* channel_;
};

/// Destroys an id, and before it the queue pair that it has.
struct DestroyId {
  void operator()(rdma_cm_id* id) const;
};

using Id = std::unique_ptr<rdma_cm_id, DestroyId>;

/// Makes an id whose events come on `channel`.
Id make_id(const EventChannel& channel, rdma_port_space space = RDMA_PS_TCP);

/// Takes over the id of a CONNECT_REQUEST.
inline Id own(const CmEvent& request) { return Id(request.id); }

struct Address {
  sockaddr_storage storage{};

  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }

  [[nodiscard]] std::uint16_t port() const {
    return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  }

  [[nodiscard]] Address with_port(std::uint16_t port) const {
    Address other = *this;
    reinterpret_cast<sockaddr_in&>(other.storage).sin_port = htons(port);
    return other;
  }
};

Address ipv4(const std::string& text, std::uint16_t port = 0);
Address ipv6(const std::string& text, std::uint16_t port = 0, std::uint32_t scope = 0);

/// The IPv4 address of this node's NIC `index`, which is in its GID table.
Address nic_address(int index = 0, std::uint16_t port = 0);

/// Makes a small queue pair for an id, of the type that its port space needs.
void create_qp(rdma_cm_id* id);

/// Listens at `address`, or at that of the first NIC, on a port that the connection manager
/// chooses.
struct Listener {
  explicit Listener(rdma_port_space space = RDMA_PS_TCP, int backlog = 8,
                    Address address = nic_address());

  EventChannel channel;
  Id id;
  Address address;  ///< with the chosen port
};

/// Makes an id on `channel` and resolves its address and route.
Id resolved_id(const EventChannel& channel, Address destination,
               rdma_port_space space = RDMA_PS_TCP);

/// Connection parameters with private data.
struct Parameters {
  Parameters() = default;

  explicit Parameters(std::vector<std::uint8_t> bytes) : data(std::move(bytes)) {
    value.private_data = data.data();
    value.private_data_len = static_cast<std::uint8_t>(data.size());
  }

  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  std::vector<std::uint8_t> data;
  rdma_conn_param value = [] {
    rdma_conn_param defaults{};
    defaults.responder_resources = 1;
    defaults.initiator_depth = 1;
    defaults.retry_count = 7;
    defaults.rnr_retry_count = 7;
    return defaults;
  }();
};

/// Two connected ids of this process, each with a queue pair.
struct ConnectedPair {
  ConnectedPair();

  Listener listener;
  EventChannel channel;
  Id active;
  Id passive;
};

// Functions that the plugin has only for tests.

/// How long later requests wait for an answer; 0: the default.
void set_response_timeout(std::uint64_t ms);
/// The number of records in the connection manager's tables, of all processes.
unsigned live_records();
/// Makes the n-th call from now (0: the next) fail; a negative n switches this off. Returns the
/// number of calls since the last use.
long fail_nth_call(long n, int error_number);

}  // namespace hbmwire::test
