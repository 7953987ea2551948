// SPDX-License-Identifier: MIT
#include "emulation/tests/survival/fuzz_model.hpp"

#include <algorithm>
#include <cstring>

namespace hbmwire::test {
namespace {

struct Range {
  std::size_t offset, length;
};

using Bytes = std::vector<unsigned char>;

/// The bytes under a key, if the access is allowed.
std::optional<Range> granted(const Grants& grants, bool local, std::uint32_t key,
                             std::uint64_t address, std::uint64_t length, int access) {
  for (const Grant& grant : grants.all) {
    if (grant.key != key || !(local ? grant.local : grant.remote)) continue;
    if ((access & ~grant.access) != 0 || address < grant.address) return std::nullopt;
    const std::uint64_t start = address - grant.address;
    if (start > grant.length || length > grant.length - start) return std::nullopt;
    return Range{grant.offset + start, length};
  }
  return std::nullopt;
}

/// The ranges of a request's elements, up to `limit` bytes; nullopt if access to one is not
/// allowed.
std::optional<std::vector<Range>> ranges_of(const FuzzRequest& request, const Grants& grants,
                                            int access, std::uint64_t limit) {
  std::vector<Range> ranges;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < request.elements; ++i) {
    const ibv_sge& element = request.sge[i];
    if (element.length == 0 || bytes >= limit) continue;
    const auto range = granted(grants, true, element.lkey, element.addr, element.length, access);
    if (!range) return std::nullopt;
    ranges.push_back(*range);
    bytes += element.length;
  }
  return ranges;
}

/// The bytes of `ranges` of a side's memory, one range after another.
Bytes gather(const Bytes& memory, const std::vector<Range>& ranges) {
  Bytes bytes;
  for (const Range& range : ranges) {
    const auto from = memory.begin() + static_cast<std::ptrdiff_t>(range.offset);
    bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(range.length));
  }
  return bytes;
}

/// Adds the writes that put `bytes` into the ranges, in the requester's memory if `here`.
void scatter(Effect& effect, bool here, const Bytes& bytes, const std::vector<Range>& ranges) {
  std::size_t done = 0;
  for (const Range& range : ranges) {
    const std::size_t length = std::min(range.length, bytes.size() - done);
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(done);
    effect.writes.push_back(
        {here, range.offset, Bytes(from, from + static_cast<std::ptrdiff_t>(length))});
    done += length;
  }
}

/// Inline data is read by address; keys do not matter.
Bytes inline_data(const FuzzRequest& request, const Modelled& requester, const Area& area) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < request.elements; ++i)
    ranges.push_back({request.sge[i].addr - area.base, request.sge[i].length});
  return gather(requester.memory, ranges);
}

std::uint64_t total_length_of(const FuzzRequest& request) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < request.elements; ++i) length += request.sge[i].length;
  return length;
}

std::optional<Effect> effect_of_send(const Bytes& message, const FuzzRequest& receive,
                                     const Modelled& responder) {
  if (total_length_of(receive) < message.size()) return std::nullopt;
  const auto targets = ranges_of(receive, responder.grants, IBV_ACCESS_LOCAL_WRITE, message.size());
  if (!targets) return std::nullopt;
  Effect effect;
  scatter(effect, false, message, *targets);
  return effect;
}

Effect effect_of_atomic(const FuzzRequest& request, const std::vector<Range>& result,
                        const Range& target, const Modelled& responder) {
  std::uint64_t old = 0;
  std::memcpy(&old, responder.memory.data() + target.offset, sizeof old);
  const bool adds = request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  std::uint64_t changed = old == request.compare_add ? request.swap : old;
  if (adds) changed = old + request.compare_add;
  Effect effect;
  Bytes bytes(sizeof old);
  std::memcpy(bytes.data(), &changed, sizeof changed);
  scatter(effect, false, bytes, {target});
  std::memcpy(bytes.data(), &old, sizeof old);
  scatter(effect, true, bytes, result);
  return effect;
}

}  // namespace

std::optional<Effect> effect_of(const FuzzRequest& request, const FuzzRequest& receive,
                                const Modelled& requester, const Modelled& responder,
                                const Area& area) {
  const ibv_wr_opcode opcode = request.opcode;
  const bool atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const bool fetches = atomic || opcode == IBV_WR_RDMA_READ;
  Bytes payload;
  std::vector<Range> own;
  const std::uint64_t length = total_length_of(request);
  bool loses_answer = false;
  if ((request.flags & IBV_SEND_INLINE) != 0) {
    payload = inline_data(request, requester, area);
  } else {
    const auto ranges = ranges_of(request, requester.grants, fetches ? IBV_ACCESS_LOCAL_WRITE : 0,
                                  ~std::uint64_t{0});
    // The responder acts before the answer reaches the requester's memory.
    loses_answer = !ranges && fetches;
    if (!ranges && !fetches) return std::nullopt;
    own = ranges.value_or(std::vector<Range>());
    payload = gather(requester.memory, own);
  }
  if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM)
    return effect_of_send(payload, receive, responder);
  if (atomic && (length != 8 || request.remote_address % 8 != 0)) return std::nullopt;
  if (length == 0) return Effect{};  // no key is checked
  const int access = atomic    ? IBV_ACCESS_REMOTE_ATOMIC
                     : fetches ? IBV_ACCESS_REMOTE_READ
                               : IBV_ACCESS_REMOTE_WRITE;
  const auto target =
      granted(responder.grants, false, request.rkey, request.remote_address, length, access);
  if (!target) return std::nullopt;
  if (atomic) {
    Effect effect = effect_of_atomic(request, own, *target, responder);
    effect.succeeds = !loses_answer;
    return effect;
  }
  if (loses_answer) return std::nullopt;  // a READ changes the requester's memory alone
  Effect effect;
  if (fetches) {
    scatter(effect, true, gather(responder.memory, {*target}), own);
  } else {
    scatter(effect, false, payload, {*target});
  }
  return effect;
}

}  // namespace hbmwire::test
