// SPDX-License-Identifier: MIT
#include "endpoint/transfer_counts.hpp"

#include <string>

#include "hbmwire/host_port.hpp"

#include "context/context_state.hpp"
#include "counters/store.hpp"
#include "endpoint/transfer_counts_datapath.hpp"
#include "registration/path_record.hpp"

namespace hbmwire::detail {

namespace {

/// The name to count a peer by. A peer that connects comes from another port each time, so its port
/// is left out.
std::string peer_of(const EndpointState& endpoint) {
  if (endpoint.dialed) return endpoint.peer;
  const auto split = split_host_port(endpoint.peer);
  return split ? split->host : endpoint.peer;
}

}  // namespace

void TransferCounts::make(std::uint32_t context) {
  counters::Store& store = counters::Store::get();
  number_ = counters::Store::next_worker();
  own_ = &store.take_traffic({.context = context, .worker = number_}, {}, {});
  for (auto& block : times_) block = &store.take_times({.context = context, .worker = number_});
}

TransferCounts::~TransferCounts() {
  // A child by fork(2) has a Store of its own, which holds nothing of this worker.
  if (number_ != 0 && !worker_.made.is_inherited()) counters::Store::get().end_worker(number_);
}

counters::TrafficBlock& TransferCounts::begin_endpoint(const EndpointState& endpoint) const {
  return counters::Store::get().take_traffic(
      {.context = own_->head.owner.context, .worker = number_, .endpoint = endpoint.number},
      endpoint.nic->info.name, peer_of(endpoint));
}

void TransferCounts::end_endpoint(counters::TrafficBlock& block) const noexcept {
  if (&block == own_ || worker_.made.is_inherited()) return;
  counters::Store::get().end_endpoint(block);
}

TransferLabels TransferCounts::labels_of(const TransferState& transfer) const noexcept {
  TransferLabels labels{.kind = transfer.kind, .path = worker_.labels.path_of(transfer)};
  if (const PathRecord* const record = record_at(transfer.record); record != nullptr)
    labels.local = record->type;
  if (transfer.remote != kUnknownRemote) labels.remote = type_of(transfer.remote);
  return labels;
}

/// A transfer without an endpoint moves no bytes, even if a flush has a length.
void TransferCounts::note_own_success(const TransferState& transfer) noexcept {
  counters::tally(*own_, key_of(transfer), 0, [&] { return labels_of(transfer); });
}

void TransferCounts::note_failure(const TransferState& transfer, Errc why) noexcept {
  counters::TrafficBlock& block = transfer.endpoint == nullptr ? *own_ : *transfer.endpoint->counts;
  block.failures[static_cast<std::size_t>(why)].add(1);
}

void TransferCounts::note_time(const TransferState& transfer,
                               std::chrono::nanoseconds elapsed) noexcept {
  counters::tally_time(times_, counters::PackedLabels(labels_of(transfer)),
                       static_cast<std::uint64_t>(elapsed.count()));
}

void TransferCounts::note_looked_at(EndpointState& endpoint, const TransferLabels& labels,
                                    std::uint64_t bytes) noexcept {
  counters::TrafficBlock& block = *endpoint.counts;
  block.started.add(1);
  counters::cell_of(block, counters::PackedLabels(labels)).count(bytes);
}

}  // namespace hbmwire::detail
