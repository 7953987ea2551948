// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/output.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/pairs/plan.hpp"

/// Results of the runs between two machines.
namespace hbmwire::tools::doctor {

/// This machine, which runs the pairs, or that of `doctor --serve`.
enum class Side : std::uint8_t { here, there };

[[nodiscard]] std::string_view to_string(Side side) noexcept;

/// One end of a pair: a NIC, and the memory that it reads and writes.
struct LinkEnd {
  std::string memory = {};          ///< "gaudi 0"
  std::string device = {};          ///< "gaudi2 0000:33:00.0"
  std::string device_address = {};  ///< PCI address; empty if it has none
  std::string nic = {};             ///< "mlx5_0", or "mlx5_0:2" for a second port
  std::string nic_address = {};
  std::string path = {};      ///< "zero-copy dma-buf"; empty if not registered
  std::string distance = {};  ///< "PIX"; empty if one of the two is no PCI device
};

/// Bytes per second in one direction; 0 if not measured.
struct LinkRate {
  double by_write = 0;  ///< by RDMA writes of the source's NIC
  double by_read = 0;   ///< by RDMA reads of the target's NIC
  double judged = 0;    ///< the slower one; for emulated NICs, whose reads may wait, the faster one
};

/// A memory and a NIC of this machine with those of the other one.
struct LinkPair {
  LinkEnd here;
  LinkEnd there;
  PairOutcome outcome = PairOutcome::failed;  ///< zero_copy, peer_memory, host, slow, and so on
  LinkRate out = {};                          ///< from here to there
  LinkRate back = {};
  double latency_ns = 0;                 ///< median time of an 8-byte write from here
  double possible_bytes_per_second = 0;  ///< the rate that links and PCIe of both machines allow; 0
                                         ///< if unknown
  std::string limit = {};                ///< the part that sets the possible rate
  std::uint32_t mtu_bytes = 0;           ///< path MTU of the connection
  std::uint64_t verified_bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::optional<PairError> error = {};
  std::optional<Side> side = {};  ///< the end with the error; empty: it may be either end, or the
                                  ///< network
  Side noticed_by = Side::here;   ///< the end that noticed the error

  [[nodiscard]] const LinkEnd& end(Side at) const noexcept {
    return at == Side::here ? here : there;
  }

  [[nodiscard]] LinkEnd& end(Side at) noexcept { return at == Side::here ? here : there; }

  /// Notes that the side `at` lacks something that the pair needs, and the reason.
  void refuse(const PairError& why, Side at);

  /// Whether all compared bytes were right.
  [[nodiscard]] bool works() const noexcept { return outcome <= PairOutcome::slow; }
};

/// The other side.
[[nodiscard]] Side opposite(Side side) noexcept;

/// Whether the ends are the same; outcomes are not compared.
[[nodiscard]] bool is_same_pair(const LinkPair& one, const LinkPair& other) noexcept;

/// All pairs. A pair that belongs to both lists runs once, and has the same result in both.
struct LinkPairs {
  std::vector<LinkPair> nics;      ///< every NIC here with every NIC there, each with one memory
  std::vector<LinkPair> memories;  ///< every memory here with every memory there, each with its
                                   ///< nearest NIC
};

[[nodiscard]] Json to_json(const LinkPair& pair);

/// A cell of the matrix, which has a row for each NIC, or memory, of this machine, and a column for
/// each of the other machine.
[[nodiscard]] Pair cell_of(const LinkPair& pair, bool by_nics);

/// The pair as the machine of that side sees it, for rank(). NIC and device are those of that side,
/// and `memory` names what they reached. An error begins with the end that noticed it. `peer`: the
/// name of the other machine.
[[nodiscard]] Pair seen_from(const LinkPair& pair, Side side, const std::string& peer);

}  // namespace hbmwire::tools::doctor
