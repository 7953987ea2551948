// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "emulation/tests/conformance/link.hpp"

/// The table of requests with one wrong parameter, with the outcome of each.
namespace hbmwire::conformance {

/// A requester `a` with one request to a responder `b`, before it is posted. The request moves 8
/// bytes between the first bytes of both buffers; a message lands at kReceiveOffset.
struct Scene {
  Scene(const Nic& the_nic, Transport transport, const LinkOptions& options,
        ibv_wr_opcode the_opcode);

  static constexpr std::size_t kReceiveOffset = 4096;

  const Nic& nic;
  const ibv_wr_opcode opcode;
  Link link;
  Pd other_pd;
  Mr other_mr;  // of a fault that needs one
  ibv_send_wr request;
  std::vector<ibv_sge> elements;
  std::vector<ibv_sge> receive;
  bool has_receive;  // whether one is posted; the operations without a receive never have one
};

struct Fault {
  const char* name;
  LinkOptions options{};
  void (*apply)(Scene& scene) = nullptr;
};

/// All of them. Made anew, as their timing depends on the settings.
std::vector<Fault> faults();

/// `expected` and `rxe` are in the form that OutcomeTest prints: "sent=STATUS received=STATUS
/// a=STATE b=STATE changed=SIDES", with - for a completion that does not come and for no side;
/// or "post=ERROR" in place of "sent=STATUS". SIDES are those whose buffers have other contents.
struct OutcomeRow {
  Transport transport;  // rows of RC hold for XRC, too, unless it has its own
  const char* fault;
  const char* opcodes;
  const char* expected;
  const char* rxe = nullptr;  // of Linux 6.12 with rdma-core 44, where it is another
  const char* why = nullptr;  // why the expectation is not rxe's; IBTA vol. 1 by section
};

std::span<const OutcomeRow> outcome_table();

}  // namespace hbmwire::conformance
