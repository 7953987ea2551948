// SPDX-License-Identifier: MIT
#include "tools/perf/verbs/requests.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hbmwire/low_level/native.hpp"

#include "tools/perf/engine_steps.hpp"

namespace hbmwire::tools::perf {
namespace {

// The operands of perftest.
constexpr std::uint64_t kAdd = 1;
constexpr std::uint64_t kSwap = 1;
constexpr std::uint64_t kCompare = 0;

ibv_wr_opcode opcode_of(const PerfRequest& request) {
  switch (kind_of(request.test).verb) {
    case Verb::write:
      return IBV_WR_RDMA_WRITE;
    case Verb::read:
      return IBV_WR_RDMA_READ;
    case Verb::atomic:
      return request.compare_swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
      return IBV_WR_SEND;
  }
}

void set_remote(const PerfRequest& request, const Lane& lane, std::uint64_t address,
                std::uint32_t key, ibv_send_wr& wr) {
  if (kind_of(request.test).verb == Verb::atomic) {
    wr.wr.atomic.remote_addr = address;
    wr.wr.atomic.compare_add = request.compare_swap ? kCompare : kAdd;
    wr.wr.atomic.swap = kSwap;
    wr.wr.atomic.rkey = key;
  } else if (kind_of(request.test).verb != Verb::send) {
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
  } else if (lane.path) {
    wr.wr.ud.ah = lane.path.get();
    wr.wr.ud.remote_qpn = lane.remote_queue;
    wr.wr.ud.remote_qkey = lane.queue_key;
  }
}

/// The values that all requests of a lane share.
struct Common {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t length = 0;
};

void build_sends(const PerfRequest& request, Lane& lane, const Common& common, const Slots& slots) {
  lane.requests.assign(request.post_list, {});
  lane.elements.assign(request.post_list, {});
  for (std::uint32_t i = 0; i < request.post_list; ++i) {
    const std::uint64_t offset = slots.offsets[i % slots.offsets.size()];
    lane.elements[i] = {lane.local_base + offset, common.length, common.local_key};
    ibv_send_wr& wr = lane.requests[i];
    wr.wr_id = lane.number;
    wr.next = i + 1 < request.post_list ? &lane.requests[i + 1] : nullptr;
    wr.sg_list = &lane.elements[i];
    wr.num_sge = 1;
    wr.opcode = common.opcode;
    wr.send_flags = common.flags;
    set_remote(request, lane, lane.remote_base + offset, common.remote_key, wr);
  }
}

void build_receives(Lane& lane, std::uint32_t count, const ibv_sge& element) {
  lane.receives.assign(count, {});
  lane.receive_elements.assign(count, element);
  lane.next_receive_slot = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    lane.receives[i] = {.wr_id = lane.number,
                        .next = i + 1 < count ? &lane.receives[i + 1] : nullptr,
                        .sg_list = &lane.receive_elements[i],
                        .num_sge = 1};
  }
}

/// The word at a slot before a pass. For compare-and-swap, every other word is equal to the
/// compared value.
std::uint64_t before(const PerfRequest& request, const Contents& contents, std::uint64_t from,
                     std::size_t slot) {
  return request.compare_swap && slot % 2 == 0 ? kCompare : contents.word_of_pattern(from);
}

/// Records a wrong result of an atomic operation.
void note_word(const char* what, std::uint64_t at, std::uint64_t expected, std::uint64_t got,
               Verification& found) {
  ++found.slots;
  found.bytes += sizeof expected;
  if (expected == got) return;
  found.wrong_bytes += sizeof expected;
  if (!found.problem.empty()) return;
  found.problem =
      fmt::format("verify: {} at {:#x}: expected {:#x}, got {:#x}", what, at, expected, got);
}

/// The word after `times` operations on it.
std::uint64_t after(const PerfRequest& request, std::uint64_t word, std::uint64_t times) {
  if (!request.compare_swap) return word + times * kAdd;
  return times != 0 && word == kCompare ? kSwap : word;
}

}  // namespace

std::uint32_t receive_grain(const PerfRequest& request) noexcept {
  // Several receives for each call, but few enough that the lane does not idle during the call.
  constexpr std::uint32_t kMost = 16;
  return std::clamp(request.rx_depth / 4, 1U, kMost);
}

std::uint32_t credit_grain(const PerfRequest& request) noexcept {
  // Often enough that only the link can make the sender wait.
  return std::max(1U, request.rx_depth / 4);
}

Outcome<void> build_requests(const Work& work, Lanes& lanes, const wire::PerfQueues& peer,
                             const Slots& sent, const Slots& received) {
  const PerfRequest& request = work.request;
  const Verb verb = kind_of(request.test).verb;
  const Region& region = work.side.buffer.region();
  const Layout& layout = work.side.layout;
  Common common{.opcode = opcode_of(request), .remote_key = peer.memory.remote_key};
  HBMWIRE_TRY_ASSIGN(common.local_key, native::local_key(region, work.side.nic));
  common.length = static_cast<std::uint32_t>(sent.size_bytes);
  const bool carries_data = verb == Verb::write || verb == Verb::send;
  if (carries_data && sent.size_bytes <= lanes.inline_bytes) common.flags = IBV_SEND_INLINE;
  const ibv_sge into{0, static_cast<std::uint32_t>(received.size_bytes + received.header_bytes),
                     common.local_key};
  for (Lane& lane : lanes.lanes) {
    // A READ brings the peer's source here; all other operations change the peer's target.
    const bool read = verb == Verb::read;
    lane.local_base =
        region.address() + (read ? layout.target(lane.number) : layout.source(lane.number));
    lane.remote_base =
        peer.memory.address + (read ? layout.source(lane.number) : layout.target(lane.number));
    lane.receive_base = region.address() + layout.target(lane.number);
    build_sends(request, lane, common, sent);
    build_receives(lane, receive_grain(request), into);
  }
  return {};
}

void single_out(const PerfRequest& request, Lane& lane, const Slots& sent, bool by_immediate) {
  const std::uint64_t offset = sent.offsets.front();
  ibv_send_wr& wr = lane.requests.front();
  lane.elements.front().addr = lane.local_base + offset;
  if (kind_of(request.test).verb == Verb::atomic) {
    wr.wr.atomic.remote_addr = lane.remote_base + offset;
  } else if (kind_of(request.test).verb != Verb::send) {
    wr.wr.rdma.remote_addr = lane.remote_base + offset;
  }
  if (by_immediate) wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags |= IBV_SEND_SIGNALED;
}

void rejoin(const PerfRequest& request, Lane& lane) {
  lane.requests.front().opcode = opcode_of(request);
}

Outcome<void> lay_out_words(const Work& work, Contents& contents, const Slots& slots) {
  if (!work.request.compare_swap) return {};
  for (std::uint32_t lane = 0; lane < work.request.queue_pairs; ++lane) {
    for (std::size_t slot = 0; slot < slots.offsets.size(); slot += 2) {
      HBMWIRE_TRY(
          contents.write_word(work.side.layout.target(lane) + slots.offsets[slot], kCompare));
    }
  }
  return {};
}

Outcome<void> compare_atomics(const Work& work, Contents& contents, const Slots& slots,
                              const AtomicPass& pass, Verification& found) {
  const PerfRequest& request = work.request;
  const Layout& layout = work.side.layout;
  for (std::uint32_t lane = 0; lane < request.queue_pairs; ++lane) {
    for (std::size_t slot = 0; slot < slots.offsets.size(); ++slot) {
      // The messages went through the slots in turn, so the first slots may have had one more.
      const std::uint64_t times =
          pass.messages / slots.offsets.size() + (slot < pass.messages % slots.offsets.size());
      const std::uint64_t from = layout.source(lane) + slots.offsets[slot];
      const std::uint64_t word_at = layout.target(lane) + slots.offsets[slot];
      if (work.is_passive()) {
        // The words of the target began as this side's pattern, those returned into the source as
        // the peer's.
        set_pattern(contents, work, /*own=*/true, pass.pass);
        HBMWIRE_TRY_ASSIGN(const auto got, contents.read_word(word_at));
        note_word("atomic word", word_at,
                  after(request, before(request, contents, from, slot), times), got, found);
      }
      if (work.is_active()) {
        set_pattern(contents, work, /*own=*/false, pass.pass);
        HBMWIRE_TRY_ASSIGN(const auto got, contents.read_word(from));
        // The last operation returned the word that it found, which all others had changed.
        note_word("atomic result", from,
                  after(request, before(request, contents, from, slot), times - 1), got, found);
      }
    }
  }
  return {};
}

}  // namespace hbmwire::tools::perf
