// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cstring>

#include "endpoint/endpoint_state.hpp"  // the mover interface
#include "put_ends.hpp"

/// An example of another way of moving bytes: a class and a row of MoverTable. No other mover is
/// changed.
namespace hbmwire::test {
namespace {

/// Copies with the CPU between two host memories of one process, and counts the bytes.
class CountingMover final : public detail::Mover {
 public:
  explicit CountingMover(std::uint64_t from_bytes) : from_bytes_(from_bytes) {}

  /// Asked for each put and get before it begins.
  [[nodiscard]] bool takes(const detail::EndpointState& /*endpoint*/,
                           const detail::Move& move) const override {
    return move.local().path == Path::host && move.distant().type == MemoryType::host &&
           move.here.length_bytes >= from_bytes_;
  }

  /// The default asks this mover only if the NIC does not reach both ends.
  [[nodiscard]] std::uint64_t asked_from() const noexcept override { return from_bytes_; }

  [[nodiscard]] bool needs_nic(const detail::EndpointState& /*endpoint*/,
                               const detail::Move& /*move*/) const override {
    return false;
  }

  /// From here on the transfer waits in its endpoint's queue, together with this mover.
  Result<void> start(detail::TransferState& transfer, transport::Operation& /*operation*/,
                     const detail::Move& /*move*/) override {
    transfer.move_by(*this);
    return {};
  }

  /// Called when it is the transfer's turn. An immediate follows the bytes.
  bool advance(detail::TransferState& transfer) noexcept override {
    const transport::Operation& what = transfer.operation;
    auto* const here = std::bit_cast<std::byte*>(what.local);
    auto* const there = std::bit_cast<std::byte*>(what.remote);
    const bool gets = what.opcode == transport::Opcode::read;
    std::memcpy(gets ? here : there, gets ? there : here, what.length);
    return !what.with_immediate || transfer.endpoint->post_immediate(transfer);
  }

  /// The transfer has left the queue. Its immediate may still be in flight.
  bool finish(detail::TransferState& transfer) noexcept override {
    bytes_ += transfer.bytes;
    if (transfer.parts == 0) transfer.endpoint->go_on(transfer);
    return true;
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t from_bytes_;
  std::uint64_t bytes_ = 0;
};

class Counting : public PutEnds {
 protected:
  static constexpr std::uint64_t kFrom = 1000;

  void SetUp() override {
    PutEnds::SetUp();
    begin({}, {});
    state_of(*ends_->a).movers.table.add_first(mover_);
  }

  void wait_for(Transfer transfer) {
    ends_->drive([&] { return transfer.done(); });
    EXPECT_TRUE(transfer.poll());
  }

  CountingMover mover_{kFrom};
};

TEST_F(Counting, TheMoverCarriesPutsAndGets) {
  wait_for(value(ends_->a->put(source_->slice(0, kBytes), remote_.slice(0, kBytes))));
  EXPECT_TRUE(same_bytes(target_->contents(), source_->contents()));
  EXPECT_EQ(mover_.bytes(), kBytes);
  target_->fill(3);
  wait_for(value(ends_->a->get(source_->slice(0, kBytes), remote_.slice(0, kBytes))));
  EXPECT_TRUE(same_bytes(source_->contents(), target_->contents()));
  EXPECT_EQ(mover_.bytes(), 2 * kBytes);
}

TEST_F(Counting, TheMoverLeavesTheRestToTheNic) {
  wait_for(value(ends_->a->put(source_->slice(0, kFrom - 1), remote_.slice(0, kFrom - 1))));
  wait_for(value(ends_->a->put(source_->slice(0, 0), remote_.slice(0, 0))));
  EXPECT_EQ(mover_.bytes(), 0U);
}

TEST_F(Counting, TheMoverKeepsItsOrderWithTheNic) {
  // The NIC writes each byte of the target, then the mover, then the NIC again.
  Transfer first = value(ends_->a->put(source_->slice(0, 100), remote_.slice(0, 100)));
  Transfer second =
      value(ends_->a->put(source_->slice(1000, kFrom), remote_.slice(0, kFrom), {.immediate = 7U}));
  Transfer third = value(ends_->a->put(source_->slice(100, 100), remote_.slice(0, 100)));
  Transfer told = value(ends_->b->receive_immediate());
  ends_->drive([&] { return third.done() && told.done(); });
  EXPECT_TRUE(first.done() && second.done());
  EXPECT_EQ(told.value(), 7U);
  const auto from = source_->contents();
  const auto to = target_->contents();
  EXPECT_TRUE(std::equal(to.begin(), to.begin() + 100, from.begin() + 100));
  EXPECT_TRUE(std::equal(to.begin() + 100, to.begin() + kFrom, from.begin() + 1100));
  EXPECT_EQ(mover_.bytes(), kFrom);
}

}  // namespace
}  // namespace hbmwire::test
