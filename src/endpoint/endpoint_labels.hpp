// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/transfer.hpp"

namespace hbmwire::detail {

struct TransferState;

/// An endpoint's part of what its transfers tell of their way, even when the endpoint has gone.
struct EndpointLabel {
  std::string nic;
  std::string peer;
  bool one_node = false;  // the peer's, and this one
  bool one_process = false;
  bool copies = false;  // engines, within it
  bool shares = false;  // by IPC, between two of a node
  bool shares_first = false;
  bool ipc_refused = false;              // where there was another way
  bool shares_memory = false;            // host memory of two processes of a node
  std::optional<Error> not_shared = {};  // why not, or not all of it
  bool over_tcp = false;
  std::vector<std::string> rails = {};  // their NICs, the endpoint's own first; none: it has one
  bool in_use = true;                   // its endpoint lives
  bool wanted = false;                  // drop_unused()
};

/// The labels of a worker's endpoints, by EndpointState::number, and how a transfer went by them
/// (docs/paths.md). The data path writes two words (Route); all else is found here when it is asked
/// for.
class EndpointLabels {
 public:
  /// May throw std::bad_alloc.
  void add(std::uint32_t number, EndpointLabel label) { labels_[number] = std::move(label); }

  /// Null: there is none.
  [[nodiscard]] EndpointLabel* find(std::uint32_t number) noexcept;
  [[nodiscard]] const EndpointLabel* find(std::uint32_t number) const noexcept;

  /// The endpoint goes, if it has a label. Labels are dropped some together, but for those that one
  /// of `transfers` may be asked for.
  void leave(std::uint32_t number, std::span<const TransferState> transfers) noexcept;

  /// Its path, as it is called.
  [[nodiscard]] Path path_of(const TransferState& transfer) const noexcept;

  /// Whether an engine of this process copied it, or why not.
  [[nodiscard]] PathTried copy_of(const TransferState& transfer) const;

  /// The same of the peer's process; of host memory of two processes, whether this one's CPU copied
  /// it (Path::shared_memory). `ipc_from_bytes`: the settings'.
  [[nodiscard]] PathTried ipc_of(const TransferState& transfer, std::uint64_t ipc_from_bytes) const;

 private:
  [[nodiscard]] Error why_not_shared(const TransferState& transfer,
                                     const EndpointLabel& label) const;
  [[nodiscard]] const char* why_not_ipc(const TransferState& transfer,
                                        std::uint64_t ipc_from_bytes) const;

  void drop_unused(std::span<const TransferState> transfers) noexcept;

  // All transfers are looked at for so many labels.
  static constexpr std::size_t kTogether = 64;

  std::map<std::uint32_t, EndpointLabel> labels_;
  std::size_t left_ = 0;               // labels of endpoints that have gone
  std::size_t most_left_ = kTogether;  // with so many of them some are dropped
};

}  // namespace hbmwire::detail
