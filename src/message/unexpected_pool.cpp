// SPDX-License-Identifier: MIT
#include "message/unexpected_pool.hpp"

#include <algorithm>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/worker_nic.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBlockBytes = 256 * 1024;

}  // namespace

UnexpectedPool::UnexpectedPool(const Context& context, const WorkerNic& nic,
                               std::uint64_t most_bytes, std::uint32_t longest_bytes)
    : context_(context),
      nic_(nic),
      block_units_(UnexpectedUnits::units_for(std::max<std::uint64_t>(kBlockBytes, longest_bytes))),
      most_blocks_(most_bytes / (block_units_ * UnexpectedUnits::kUnitBytes)) {}

Result<void> UnexpectedPool::grow() {
  return blocks_.size() >= most_blocks_ ? Result<void>{} : add_block();
}

UnexpectedMessage* UnexpectedPool::take_beyond(std::uint32_t units) noexcept {
  if (UnexpectedMessage* const record = take(units)) return record;
  const auto added = guarded(Stage::allocate, [&] { return add_block(); });
  return added ? take(units) : nullptr;
}

Result<void> UnexpectedPool::add_block() {
  auto block = std::make_unique<UnexpectedBlock>(block_units_);
  HBMWIRE_TRY_ASSIGN(block->memory,
                     NicMemory::make(context_, nic_, block_units_ * UnexpectedUnits::kUnitBytes));
  blocks_.push_back(std::move(block));
  return {};
}

void UnexpectedPool::look_after(Time at) noexcept {
  constexpr auto kLong = 5s;
  if (wants_) {
    wants_ = false;
    idle_since_ = Time::max();
    const auto grown = guarded(Stage::allocate, [&] { return grow(); });
    if (!grown && told_.is_new(grown.error())) {
      log_line(LogLevel::warn, [&] {
        return "fewer messages than unexpected_bytes may wait for their receives: " +
               describe(grown.error());
      });
    }
    return;
  }
  // The first block stays: the pool begins with it.
  if (blocks_.size() <= 1 || !blocks_.back()->units.all_free()) {
    idle_since_ = Time::max();
  } else if (idle_since_ == Time::max()) {
    idle_since_ = at;
  } else if (at - idle_since_ >= kLong) {
    blocks_.pop_back();
    idle_since_ = Time::max();
  }
}

}  // namespace hbmwire::detail
