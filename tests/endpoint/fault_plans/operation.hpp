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

/// The operations that the plan's process asks for, as often as the plan says.
struct Operation {
  enum class Kind : std::uint8_t {
    put,
    get,
    add,
    swap,
    put_immediate,
    list_put,
    list_get,
    plain,   ///< a message
    tagged,  ///< one that the peer sends back
    echo,    ///< the receive for that
  };

  [[nodiscard]] bool writes_target() const noexcept {
    return kind == Kind::put || kind == Kind::put_immediate || kind == Kind::list_put;
  }

  /// A put or get, and no list.
  [[nodiscard]] bool is_single() const noexcept {
    return kind == Kind::put || kind == Kind::put_immediate || kind == Kind::get;
  }

  [[nodiscard]] bool is_message() const noexcept {
    return kind == Kind::plain || kind == Kind::tagged;
  }

  Kind kind = Kind::put;
  std::uint64_t number = 0;
  std::uint64_t slot = 0;  ///< of its own in both memories
  std::uint64_t bytes = 0;
  std::uint64_t ordinal = 0;  ///< of a message: the how manieth of its kind, from 0
  bool taken = true;          ///< over no earlier than its bytes are there
  std::optional<PreparedTransfer> prepared = {};
  std::unique_ptr<BlockList> blocks = {};  ///< in place of that; stays until it is over
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
  std::uint64_t tagged_ = 0;  // the same
};

}  // namespace hbmwire::test
