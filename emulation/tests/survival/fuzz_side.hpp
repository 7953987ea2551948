// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"

/// An end of the connection for random requests. It follows instructions, in this process or in a
/// child.
namespace hbmwire::test {

inline constexpr std::size_t kAreaBytes = 65536;
inline constexpr std::size_t kFuzzElements = 4;

/// Memory of a side, which the test sees too.
struct Area {
  std::uint64_t base = 0;  // of the mapping; the same in both processes
  int fd = -1;             // the file with the memory
};

/// The access that a key grants, for the model.
struct Grant {
  std::uint32_t key = 0;
  std::uint64_t address = 0;  // as requests use it
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  // in the area
  int access = 0;
  bool local = false;   // may be an lkey of this side's requests
  bool remote = false;  // may be an rkey of the peer's requests
};

/// Grants 0 to 7 are regions, 8 and 9 the windows, and 10 is the whole area.
inline constexpr std::size_t kGrants = 11;

struct Grants {
  std::array<Grant, kGrants> all{};
};

/// A send or receive request, as values that can be passed to another process.
struct FuzzRequest {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t elements = 0;
  std::array<ibv_sge, kFuzzElements> sge{};
};

struct Command {
  enum Kind : std::uint8_t { connect, receive, send, rebind, end };

  Kind kind = end;
  Address peer{};
  FuzzRequest request{};
  std::uint32_t window = 0;        // rebind: the window
  std::uint64_t from = 0, to = 0;  // rebind: the range in the area
};

struct Reply {
  int error = 0;
  ibv_wc_status status = IBV_WC_GENERAL_ERR;  // send: the status of its completion
  std::uint32_t received_bytes = 0;
  Grants grants{};
};

class FuzzSide {
 public:
  explicit FuzzSide(const Area& area);

  [[nodiscard]] Address address() const { return endpoint_.address(); }

  [[nodiscard]] const Grants& grants() const { return grants_; }

  /// Carries out a command. A `send` is waited for.
  Reply execute(const Command& command);

 private:
  // These make a region, or bind a window, of the bytes of the area from `from` to before `to`, and
  // set the grant number `at`.
  void grant_region(std::size_t at, std::uint64_t from, std::uint64_t to, int access);
  void grant_window(std::size_t at, std::uint64_t from, std::uint64_t to, int access);
  int connect(const Address& peer);
  int post_receive(const FuzzRequest& request);
  int post_send(const FuzzRequest& request);
  ibv_wc_status wait_for_send();

  Area area_;
  Endpoint endpoint_;
  Pd other_pd_;
  Mr whole_;  // the MR that windows are bound to
  std::vector<Mr> regions_;
  std::vector<Mw> windows_;
  Grants grants_;
};

}  // namespace hbmwire::test
