// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "transport/lane.hpp"
#include "transport/request_id.hpp"
#include "transport/verbs/completion_queue.hpp"
#include "transport/verbs/lane_datapath.hpp"

// Posts and polls without a virtual call if a NIC carries the lane, which is nearly always so.
namespace hbmwire::transport {

/// Calls `use` with the chain, as a VerbsChain if a NIC carries the lane.
template <class Use>
auto with_chain(const Lane& lane, PreparedChain& chain, const Use& use) noexcept {
  if (lane.by_nic()) [[likely]]
    return use(static_cast<VerbsChain&>(chain));
  return use(chain);
}

inline int post(Lane& lane, PreparedChain& chain, bool fenced, bool& begun) noexcept {
  if (lane.by_nic()) [[likely]]
    return static_cast<VerbsLane&>(lane).post(chain, fenced, begun);
  return lane.post(chain, fenced, begun);
}

/// poll() for a queue that belongs to no NIC.
template <class Handle>
[[gnu::noinline]] int poll_other(CompletionQueue& queue, const Handle& handle) noexcept {
  std::array<Completion, VerbsCompletionQueue::kBatch> completions;
  const int count = queue.poll(completions);
  for (int i = 0; i < count; ++i) {
    const Completion& completion = completions[static_cast<std::size_t>(i)];
    handle(completion.id, completion.good(), [&] { return completion; });
  }
  return count;
}

/// Polls once, and calls `handle(id, good, full)` for each completion; `full()` returns the
/// Completion. Returns the same as CompletionQueue::poll().
template <class Handle>
[[gnu::always_inline]] inline int poll(CompletionQueue& queue, const Handle& handle) noexcept {
  if (queue.by_nic()) [[likely]]
    return static_cast<VerbsCompletionQueue&>(queue).poll_each(handle);
  return poll_other(queue, handle);
}

}  // namespace hbmwire::transport
