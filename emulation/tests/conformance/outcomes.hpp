// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "emulation/tests/conformance/link.hpp"

/// The table of requests with one wrong parameter, with the outcome of each.
namespace hbmwire::conformance {

/// A requester `a` with a request to a responder `b`, before it is posted. The request moves 8
/// bytes between the first bytes of the two buffers. A message lands at kReceiveOffset.
struct Scene {
  Scene(const Nic& the_nic, Transport transport, const LinkOptions& options,
        ibv_wr_opcode the_opcode);

  static constexpr std::size_t kReceiveOffset = 4096;

  const Nic& nic;
  const ibv_wr_opcode opcode;
  Link link;
  Pd other_pd;
  Mr other_mr;  // for faults that need another region
  ibv_send_wr request;
  std::vector<ibv_sge> elements;
  std::vector<ibv_sge> receive;
  bool has_receive;  // whether one is posted; never for operations without a receive
};

/// A wrong parameter: options for making the link, and a change of the scene before the request is
/// posted.
struct Fault {
  const char* name;
  LinkOptions options{};
  void (*apply)(Scene& scene) = nullptr;
};

/// All faults, made anew because their timing depends on the settings.
std::vector<Fault> faults();

/// `expected` and `rxe` have the form that OutcomeTest prints: "sent=STATUS received=STATUS a=STATE
/// b=STATE changed=SIDES". A "-" means that no completion comes, or no side changes. "post=ERROR"
/// may replace "sent=STATUS". SIDES are the sides whose buffers have changed.
struct OutcomeRow {
  Transport transport;  // rows of RC apply to XRC too, unless XRC has its own
  const char* fault;
  const char* opcodes;
  const char* expected;
  const char* rxe = nullptr;  // the outcome of Linux 6.12 with rdma-core 44, if it differs
  const char* why = nullptr;  // why the expectation differs from rxe's; sections are IBTA vol. 1
};

std::span<const OutcomeRow> outcome_table();

}  // namespace hbmwire::conformance
