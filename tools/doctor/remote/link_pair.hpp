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

/// The machine that runs, or the one of `doctor --serve`.
enum class Side : std::uint8_t { here, there };

[[nodiscard]] std::string_view to_string(Side side) noexcept;

/// One end of a pair: a NIC, and the memory that it writes and reads.
struct LinkEnd {
  std::string memory = {};          ///< "gaudi 0"
  std::string device = {};          ///< "gaudi2 0000:33:00.0"
  std::string device_address = {};  ///< of PCI; empty: none
  std::string nic = {};             ///< "mlx5_0", of a second port "mlx5_0:2"
  std::string nic_address = {};
  std::string path = {};      ///< "zero-copy dma-buf"; empty: not registered
  std::string distance = {};  ///< "PIX"; empty: not of two PCI devices
};

/// Bytes a second in one direction; 0: not measured.
struct LinkRate {
  double by_write = 0;  ///< by RDMA writes of the NIC that the bytes come from
  double by_read = 0;   ///< by RDMA reads of the NIC that they go to
  double judged = 0;    ///< the slower one; of emulated NICs, whose reads may wait, the quicker one
};

/// A memory and a NIC of this machine with those of the other one.
struct LinkPair {
  LinkEnd here;
  LinkEnd there;
  PairOutcome outcome = PairOutcome::failed;  ///< zero_copy, peer_memory, host, slow, and so on
  LinkRate out = {};                          ///< from here to there
  LinkRate back = {};
  double latency_ns = 0;                 ///< of a write of 8 bytes from here, the median
  double possible_bytes_per_second = 0;  ///< what links and PCIe of both allow; 0: unknown
  std::string limit = {};                ///< which of them that is
  std::uint32_t mtu_bytes = 0;           ///< of the connection
  std::uint64_t verified_bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::optional<PairError> error = {};
  std::optional<Side> side =
      {};                        ///< where the error is; none: it may be either, or the way between
  Side noticed_by = Side::here;  ///< of an error: the end that met it

  [[nodiscard]] const LinkEnd& end(Side at) const noexcept {
    return at == Side::here ? here : there;
  }

  [[nodiscard]] LinkEnd& end(Side at) noexcept { return at == Side::here ? here : there; }

  /// That side lacks what the pair needs, for this reason.
  void refuse(const PairError& why, Side at);

  /// Whether every byte was as it should be.
  [[nodiscard]] bool works() const noexcept { return outcome <= PairOutcome::slow; }
};

/// The other one.
[[nodiscard]] Side opposite(Side side) noexcept;

/// Whether the ends are the same, whatever came of it.
[[nodiscard]] bool is_same_pair(const LinkPair& one, const LinkPair& other) noexcept;

/// All of them. One that would be in both lists is run once, and is the same in both.
struct LinkPairs {
  std::vector<LinkPair> nics;      ///< every NIC here with every one there, by one memory of each
  std::vector<LinkPair> memories;  ///< every memory with every other, by the nearest NICs
};

[[nodiscard]] Json to_json(const LinkPair& pair);

/// A cell of the matrix: there is a row for each NIC, or memory, of this machine, and a column for
/// each of the other one.
[[nodiscard]] Pair cell_of(const LinkPair& pair, bool by_nics);

/// The pair as the machine of that side sees it, for rank(): NIC and device are its own, and
/// `memory` tells what it reached. An error begins with the end that met it. `peer`: the name of
/// the machine that is not this one.
[[nodiscard]] Pair seen_from(const LinkPair& pair, Side side, const std::string& peer);

}  // namespace hbmwire::tools::doctor
