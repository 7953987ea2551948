// SPDX-License-Identifier: MIT
#include "message/receive_pool.hpp"

#include <algorithm>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/worker_nic.hpp"
#include "transport/verbs/shared_receives.hpp"

namespace hbmwire::detail {

using namespace std::chrono_literals;

std::uint64_t ReceivePool::memory_bytes(std::uint32_t receive_bytes) noexcept {
  constexpr std::uint64_t kLine = 64;  // each receive begins with a cache line
  return (receive_bytes + kLine - 1) / kLine * kLine;
}

ReceivePool::ReceivePool(const Context& context, const WorkerNic& nic, const Options& options)
    : context_(context), nic_(nic), options_(options), budget_(options.budget) {}

ReceivePool::~ReceivePool() {
  // Gives back the places in the completion queue that grow() has taken.
  if (completions_ != nullptr) {
    for (const auto& block : blocks_)
      completions_->give_back(static_cast<int>(block->buffers.size()));
  }
}

Result<std::unique_ptr<ReceivePool>> ReceivePool::of_lane(const Context& context,
                                                          const WorkerNic& nic,
                                                          transport::Lane& lane, Receiver& receiver,
                                                          std::uint32_t receive_bytes,
                                                          std::uint32_t count) {
  std::unique_ptr<ReceivePool> pool(
      new ReceivePool(context, nic, {.receive_bytes = receive_bytes}));
  pool->queue_ = &lane;
  pool->only_ = &receiver;
  HBMWIRE_TRY(pool->grow(count));
  return pool;
}

Result<std::unique_ptr<ReceivePool>> ReceivePool::shared(
    const Context& context, const WorkerNic& nic, transport::VerbsCompletionQueue& completions,
    const Options& options) {
  std::unique_ptr<ReceivePool> pool(new ReceivePool(context, nic, options));
  HBMWIRE_TRY_ASSIGN(pool->shared_, transport::SharedReceives::create(
                                        state_of(nic.nic).shared_from_this(), options.depth));
  pool->queue_ = pool->shared_.get();
  pool->completions_ = &completions;
  return pool;
}

std::size_t ReceivePool::all() const noexcept {
  std::size_t count = 0;
  for (const auto& block : blocks_) count += block->buffers.size();
  return count;
}

bool ReceivePool::may_grow() const noexcept {
  return shared_ == nullptr || (completions_->has_room(static_cast<int>(options_.block)) &&
                                all() + options_.block <= shared_->depth());
}

Result<void> ReceivePool::grow(std::uint32_t count) {
  if (!may_grow()) {
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::allocate,
                                          "the shared receive queue is full",
                                          state_of(nic_.nic).info.name, Hint::queue_pair_limit));
  }
  auto block = std::make_unique<ReceiveBlock>();
  const std::uint64_t bytes = memory_bytes(options_.receive_bytes);
  HBMWIRE_TRY_ASSIGN(block->memory, NicMemory::make(context_, nic_, count * bytes));
  block->buffers.resize(count);
  block->parked.reserve(count);
  waiting_.reserve(all() + count);
  blocks_.reserve(blocks_.size() + 1);
  std::byte* at = block->memory.bytes;
  for (ReceiveBuffer& buffer : block->buffers) {
    buffer.pool = this;
    buffer.block = block.get();
    buffer.bytes = at;
    buffer.local_key = block->memory.local_key;
    buffer.mover_key = block->memory.mover_key;
    at += bytes;
  }
  for (ReceiveBuffer& buffer : block->buffers) waiting_.push_back(&buffer);
  blocks_.push_back(std::move(block));
  if (completions_ != nullptr) completions_->take(static_cast<int>(count));
  count_ += count;
  return post_all();
}

Result<void> ReceivePool::post_all() {
  while (!waiting_.empty()) {
    if (const int result = post_waiting(); result != 0)
      return tl::make_unexpected(
          system_error(Stage::post, "ibv_post_recv", result, queue_->device()));
  }
  return {};
}

/// Grows until `promised` receives can be promised.
Result<void> ReceivePool::grow_for(std::uint32_t promised) {
  if (retiring_ != nullptr && count_ < promised + kBatch) revive();
  while (count_ < promised + kBatch) HBMWIRE_TRY(grow(options_.block));
  return {};
}

Result<void> ReceivePool::join(std::uint32_t sure) {
  HBMWIRE_TRY(grow_for(promised_ + sure));
  promised_ += sure;
  if (budget_ != nullptr) ++budget_->lanes;
  return {};
}

void ReceivePool::leave(std::uint32_t queue_pair, std::uint32_t sure, std::uint32_t extra,
                        bool lost) noexcept {
  if (queue_pair != 0) receivers_.remove(queue_pair);
  promised_ -= sure + extra;
  if (budget_ != nullptr) {
    budget_->taken -= extra;
    --budget_->lanes;
  }
  if (lost) --count_;
}

std::uint32_t ReceivePool::take_at_first(std::uint32_t wish) noexcept {
  if (budget_ == nullptr || budget_->taken >= budget_->most / 2) return 0;
  // A new lane gets at most an eighth, rounded up, of what is left of half the budget: most of the
  // budget is for lanes that turn out to need it.
  std::uint32_t count = std::min(wish, (budget_->most / 2 - budget_->taken + 7) / 8);
  const auto grown = guarded(Stage::allocate, [&] { return grow_for(promised_ + count); });
  // If the pool cannot grow, the lane gets what there is, which may be nothing.
  if (!grown) count = std::min(count, std::max(count_, kBatch + promised_) - kBatch - promised_);
  promised_ += count;
  budget_->taken += count;
  return count;
}

void ReceivePool::look_after(Time at) noexcept {
  // Posts receives that the NIC has refused before, if there are any.
  if (waiting_.size() >= kBatch) static_cast<void>(post_all());
  if (wants_ && at >= grow_at_) {
    constexpr auto kPause = 100ms;
    wants_ = false;
    enough_since_ = Time::max();
    // One promise more than the pool has receives for makes it grow by one block.
    const auto grown = guarded(Stage::allocate, [&] { return grow_for(count_ + 1 - kBatch); });
    if (grown) return;
    grow_at_ = at + kPause;
    if (budget_ != nullptr) budget_->is_short = true;  // other lanes may have more than they need
    if (told_.is_new(grown.error())) {
      log_line(LogLevel::warn, [&] {
        return "peers may send fewer messages at a time than receive_depth: " +
               describe(grown.error());
      });
    }
  } else if (!wants_) {
    retire(at);
  }
}

/// A posted receive cannot be taken back. A block is therefore retired slowly, as messages use its
/// receives up.
void ReceivePool::retire(Time at) noexcept {
  constexpr auto kLong = 5s;
  if (shared_ == nullptr) return;
  if (retiring_ != nullptr) {
    if (retiring_->parked.size() != retiring_->buffers.size()) return;
    completions_->give_back(static_cast<int>(retiring_->buffers.size()));
    std::erase_if(blocks_, [&](const auto& block) { return block.get() == retiring_; });
    retiring_ = nullptr;
    return;
  }
  // Enough: without one block, at least as many receives as a block has would still be free.
  const bool enough = blocks_.size() > 1 && promised_ + kBatch + 2 * options_.block <= count_;
  if (!enough) {
    enough_since_ = Time::max();
  } else if (enough_since_ == Time::max()) {
    enough_since_ = at;
  } else if (at - enough_since_ >= kLong) {
    enough_since_ = Time::max();
    retiring_ = blocks_.back().get();
    count_ -= static_cast<std::uint32_t>(retiring_->buffers.size());
    std::erase_if(waiting_, [&](ReceiveBuffer* buffer) {
      if (buffer->block != retiring_) return false;
      retiring_->parked.push_back(buffer);
      return true;
    });
  }
}

void ReceivePool::revive() noexcept {
  for (ReceiveBuffer* const buffer : retiring_->parked) waiting_.push_back(buffer);
  count_ += static_cast<std::uint32_t>(retiring_->buffers.size());
  retiring_->parked.clear();
  retiring_ = nullptr;
  static_cast<void>(post_all());  // if this fails, look_after() tries again
}

}  // namespace hbmwire::detail
