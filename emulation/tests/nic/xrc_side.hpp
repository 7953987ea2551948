// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/tests/nic/endpoint.hpp"

namespace hbmwire::test {

/// A file that names an XRC domain. It is removed when the test ends.
class DomainFile {
 public:
  DomainFile();
  DomainFile(const DomainFile&) = delete;
  DomainFile& operator=(const DomainFile&) = delete;
  DomainFile(DomainFile&&) = delete;
  DomainFile& operator=(DomainFile&&) = delete;
  ~DomainFile();

  [[nodiscard]] int fd() const { return fd_; }

 private:
  char path_[32];
  int fd_;
};

/// Opens the XRC domain of a file, or one without a file if `fd` is -1. Returns null with errno on
/// failure.
Xrcd open_domain(const Context& context, int fd, int oflags);

/// The objects that a process needs to receive: domain, PD, CQ, an SRQ and a buffer.
struct XrcReceiver {
  explicit XrcReceiver(int fd = -1, const char* device = "emu0");

  /// Makes another SRQ of the domain, with this PD and CQ.
  Srq make_srq();
  /// Makes an XRC_RECV QP of the domain.
  [[nodiscard]] Qp make_qp() const;
  /// Opens an XRC_RECV QP of the domain by its number. Returns null with errno on failure.
  [[nodiscard]] Qp open_qp(std::uint32_t number) const;
  int post(const Srq& to, std::uint64_t id, std::size_t offset, std::uint32_t length);

  int post(std::uint64_t id) { return post(srq, id, 0, 64); }

  std::optional<ibv_wc> wait(std::chrono::milliseconds patience = std::chrono::seconds(5));
  std::optional<ibv_async_event> wait_event(
      std::chrono::milliseconds patience = std::chrono::seconds(2));

  std::vector<unsigned char> buffer;
  Context context;
  Pd pd;
  Mr mr;
  Xrcd xrcd;
  Cq cq;
  Srq srq;
};

/// The number by which a sender names an SRQ.
std::uint32_t number_of(const Srq& srq);

ibv_qp_state state_of(const Qp& qp);

/// The sending side: an endpoint with an XRC_SEND QP.
struct XrcSender {
  XrcSender();

  /// Connects to an XRC_RECV QP of `receiver`, or of the process that sent `there`.
  void connect(const XrcReceiver& receiver, const Qp& target, const Timing& timing = {});
  void connect(const Address& there, const Timing& timing = {});
  [[nodiscard]] Address address() const;

  // Signaled requests that name an SRQ, with the first bytes of the buffer. Each returns
  // ibv_post_send's result.
  int post(ibv_send_wr request, std::uint32_t srq_number, std::uint32_t length = 8);
  int send(std::uint64_t id, std::uint32_t srq_number);
  /// Waits for the next completion and expects it to be `id` with `status`.
  void expect(std::uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS);

  Endpoint base;  // for its context, PD, CQ and buffer
  Qp qp;
};

/// Moves an XRC_RECV QP to RTS, connected to `sender`.
void connect_target(const Qp& target, const Address& sender, const Timing& timing = {});

}  // namespace hbmwire::test
