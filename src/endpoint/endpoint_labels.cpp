// SPDX-License-Identifier: MIT
#include "endpoint/endpoint_labels.hpp"

#include <algorithm>

#include "context/path_bits.hpp"
#include "endpoint/transfer_state.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::detail {

namespace {

/// Whether it is a single put or get, and no list.
bool is_single(const TransferState& transfer) noexcept {
  // Protocol's first enumerators are those of one-sided operations.
  const bool one_sided =
      transfer.protocol <= Protocol::inlined || transfer.protocol == Protocol::proxied;
  return one_sided && transfer.as<Prepared>() == nullptr && transfer.as<Blocks>() == nullptr &&
         (transfer.at_end & AtEnd::kFetch) == 0;
}

}  // namespace

EndpointLabel* EndpointLabels::find(std::uint32_t number) noexcept {
  const auto label = labels_.find(number);
  return label == labels_.end() ? nullptr : &label->second;
}

const EndpointLabel* EndpointLabels::find(std::uint32_t number) const noexcept {
  const auto label = labels_.find(number);
  return label == labels_.end() ? nullptr : &label->second;
}

void EndpointLabels::leave(std::uint32_t number,
                           std::span<const TransferState> transfers) noexcept {
  EndpointLabel* const label = find(number);
  if (label == nullptr) return;
  label->in_use = false;
  if (++left_ < most_left_) return;
  drop_unused(transfers);
  left_ = static_cast<std::size_t>(
      std::ranges::count_if(labels_, [](const auto& each) { return !each.second.in_use; }));
  most_left_ = 2 * left_ + kTogether;
}

void EndpointLabels::drop_unused(std::span<const TransferState> transfers) noexcept {
  for (auto& [number, label] : labels_) label.wanted = label.in_use;
  for (const TransferState& transfer : transfers) {
    if (transfer.status == TransferState::Status::free) continue;
    if (EndpointLabel* const label = find(transfer.connection); label != nullptr)
      label->wanted = true;
  }
  std::erase_if(labels_, [](const auto& label) { return !label.second.wanted; });
}

// Found out here and not when the transfer starts: there it would slow down every put.
Path EndpointLabels::path_of(const TransferState& transfer) const noexcept {
  const EndpointLabel* const label = find(transfer.connection);
  // copy, ipc and shared_memory are known when the transfer starts.
  if (transfer.path == Path::copy || transfer.path >= Path::ipc) return transfer.path;
  // Proxied transfers go through memory that both processes have mapped, not by TCP.
  const bool proxied = transfer.protocol == Protocol::proxied;
  if (label != nullptr && label->over_tcp && !proxied) return Path::tcp;
  if (transfer.path != Path::zero_copy) return transfer.path;
  return label != nullptr && label->one_node ? Path::nic_loopback : Path::zero_copy;
}

// `nic` stays empty: the endpoint names the NIC elsewhere in the report.
PathTried EndpointLabels::copy_of(const TransferState& transfer) const {
  PathTried tried{
      .path = Path::copy, .taken = transfer.path == Path::copy, .nic = {}, .refusal = {}};
  if (tried.taken) return tried;
  const EndpointLabel* const label = find(transfer.connection);
  const bool one_process = label != nullptr && label->one_process;
  const PathRecord* const paths = record_at(transfer.record);
  const bool of_host = paths == nullptr || paths->type == MemoryType::host;
  const bool to_host =
      transfer.remote == kUnknownRemote || type_of(transfer.remote) == MemoryType::host;
  const bool one_sided = is_single(transfer);
  const char* const why = !one_process     ? "the two ends are not in one process"
                          : !label->copies ? "the path policy excludes it"
                          : !one_sided     ? "engines carry only single puts and gets"
                          : of_host && to_host
                              ? "between host memory and host memory the NIC is as good"
                              : "no engine of this process copies between the two memories";
  tried.refusal = make_error(Errc::not_supported, Stage::post, why);
  return tried;
}

Error EndpointLabels::why_not_shared(const TransferState& transfer,
                                     const EndpointLabel& label) const {
  const auto why = [](const char* text) {
    return make_error(Errc::not_supported, Stage::post, text);
  };
  if (!label.shares_memory) return why("the path policy excludes it");
  if (label.not_shared) return *label.not_shared;
  if (transfer.protocol <= Protocol::inlined && !is_single(transfer))
    return why("lists and atomics are the NIC's");
  if (transfer.protocol > Protocol::inlined)
    return why("the sender's memory is not open to reading, so that it writes the message itself");
  return why("the peer's build does not share its memory, or its policy excludes that");
}

PathTried EndpointLabels::ipc_of(const TransferState& transfer,
                                 std::uint64_t ipc_from_bytes) const {
  const EndpointLabel* const label = find(transfer.connection);
  const PathRecord* const paths = record_at(transfer.record);
  const bool of_host =
      paths != nullptr && paths->type == MemoryType::host &&
      (transfer.remote == kUnknownRemote || type_of(transfer.remote) == MemoryType::host);
  const bool two_processes = label != nullptr && label->one_node && !label->one_process;
  if (transfer.path == Path::shared_memory || (of_host && two_processes)) {
    PathTried shared{.path = Path::shared_memory,
                     .taken = transfer.path == Path::shared_memory,
                     .nic = {},
                     .refusal = {}};
    if (!shared.taken) shared.refusal = why_not_shared(transfer, *label);
    return shared;
  }
  PathTried tried{.path = Path::ipc, .taken = transfer.path == Path::ipc, .nic = {}, .refusal = {}};
  if (tried.taken) return tried;
  tried.refusal =
      make_error(Errc::not_supported, Stage::post, why_not_ipc(transfer, ipc_from_bytes));
  return tried;
}

const char* EndpointLabels::why_not_ipc(const TransferState& transfer,
                                        std::uint64_t ipc_from_bytes) const {
  const EndpointLabel* const found = find(transfer.connection);
  if (found == nullptr || !found->one_node || found->one_process)
    return "the two ends are not in two processes of one node";
  const EndpointLabel& label = *found;
  if (!label.shares) return "the path policy excludes it";
  if (!is_single(transfer)) return "engines carry only single puts and gets";
  const PathRecord* const paths = record_at(transfer.record);
  if (paths == nullptr || transfer.remote == kUnknownRemote)
    return "which two memories they are is not known";
  const MemoryType here = paths->type;
  const MemoryType there = type_of(transfer.remote);
  const bool of_host = here == MemoryType::host;
  if (of_host ? there == MemoryType::dmabuf : !has_ipc(here) || here != there) {
    return "the two memories are neither GPU memory of one vendor, nor host memory at this end and "
           "any but an imported dma-buf at the peer";
  }
  if (is_by_nic(detail::path_of(transfer.remote))) {
    if (of_host) return "the NIC reaches the peer's memory, and this end's is the host's";
    if (!label.shares_first)
      return "the NIC needs nothing of the peer's process, and no policy names ipc";
  }
  if (transfer.bytes < ipc_from_bytes) return "there is less of it than HBMWIRE_IPC_FROM says";
  if (label.ipc_refused) {
    return "the one end has no handle of its memory, or the other could not open it; the log of "
           "both says why";
  }
  return of_host ? "this end's host memory is not `shared`, so that no other process opens it"
                 : "this key does not allow the flush of earlier writes to the memory";
}

}  // namespace hbmwire::detail
