// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/hbmwire.hpp"

#include "scenario.hpp"

namespace hbmwire::test {

/// The blocks of a list by numbers.
struct BlockList {
  BlockTable here;
  RemoteBlockTable there;
  std::vector<std::uint32_t> numbers;
};

/// An operation of the plan's process; the plan says how many there are.
struct Operation {
  enum class Kind : std::uint8_t {
    put,
    get,
    add,
    swap,
    put_immediate,
    list_put,
    list_get,
    plain,   ///< a message that the peer keeps
    tagged,  ///< a message that the peer sends back
    echo,    ///< the receive for a returned message
  };

  [[nodiscard]] bool writes_target() const noexcept {
    return kind == Kind::put || kind == Kind::put_immediate || kind == Kind::list_put;
  }

  /// Whether it is a put or get, but no list.
  [[nodiscard]] bool is_single() const noexcept {
    return kind == Kind::put || kind == Kind::put_immediate || kind == Kind::get;
  }

  [[nodiscard]] bool is_message() const noexcept {
    return kind == Kind::plain || kind == Kind::tagged;
  }

  Kind kind = Kind::put;
  std::uint64_t number = 0;
  std::uint64_t slot = 0;  ///< its own slot in both memories
  std::uint64_t bytes = 0;
  std::uint64_t ordinal = 0;  ///< index of the message among those of its kind, from 0
  bool taken = true;          ///< whether it ends only after its bytes have arrived
  std::optional<PreparedTransfer> prepared = {};
  std::unique_ptr<BlockList> blocks = {};  ///< used instead of `prepared`; lives until the transfer
                                           ///< ends
  Transfer transfer = {};
};

/// The bytes of operation `number`; never 0.
[[nodiscard]] std::byte content_of(std::uint64_t number, std::uint64_t i);

/// Starts random operations between `region` and `target`.
class Starter {
 public:
  Starter(Scenario& scenario, const Region& region, const RemoteRegion& target)
      : scenario_(scenario), region_(region), target_(target) {}

  Result<Operation> start(Endpoint& endpoint, std::uint64_t number);

 private:
  Result<Transfer> post(Endpoint& endpoint, Operation& operation);
  Result<Transfer> post_list(Endpoint& endpoint, Operation& operation, const PutOptions& options);
  Result<Transfer> post_blocks(Endpoint& endpoint, Operation& operation, const PutOptions& options);
  CompletionLevel level();

  Scenario& scenario_;
  const Region& region_;
  const RemoteRegion& target_;
  std::uint64_t plain_ = 0;   // messages so far
  std::uint64_t tagged_ = 0;  // tagged messages so far
};

}  // namespace hbmwire::test
