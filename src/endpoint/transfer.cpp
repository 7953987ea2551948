// SPDX-License-Identifier: MIT
#include "hbmwire/transfer.hpp"

#include <algorithm>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

namespace {

bool has_succeeded(const detail::TransferState& transfer) noexcept {
  return transfer.status == detail::TransferState::Status::succeeded;
}

}  // namespace

namespace detail {

namespace {

/// A put or get, and no list.
bool is_single(const TransferState& transfer) noexcept {
  const bool one_sided =
      transfer.protocol <= Protocol::inlined || transfer.protocol == Protocol::proxied;
  return one_sided && transfer.as<Prepared>() == nullptr && !transfer.fetches;
}

}  // namespace

// Not said where the transfer is started: it costs a put more than whoever asks.
Path WorkerState::path_of(const TransferState& transfer) const noexcept {
  const auto label = labels.find(transfer.connection);
  if (transfer.path == Path::copy || transfer.path == Path::ipc) return transfer.path;
  // Served: through memory that both processes have mapped.
  const bool served = transfer.protocol == Protocol::proxied;
  if (label != labels.end() && label->second.over_tcp && !served) return Path::tcp;
  if (transfer.path != Path::zero_copy) return transfer.path;
  return label != labels.end() && label->second.one_node ? Path::nic_loopback : Path::zero_copy;
}

// Which NIC carries it, if one does, the endpoint has said already.
PathTried WorkerState::copy_of(const TransferState& transfer) const {
  PathTried tried{
      .path = Path::copy, .taken = transfer.path == Path::copy, .nic = {}, .refusal = {}};
  if (tried.taken) return tried;
  const auto label = labels.find(transfer.connection);
  const bool one_process = label != labels.end() && label->second.one_process;
  const PathRecord* const paths = record_at(transfer.record);
  const bool of_host = paths == nullptr || paths->type == MemoryType::host;
  const bool to_host =
      transfer.remote == kUnknownRemote || type_of(transfer.remote) == MemoryType::host;
  const bool one_sided = is_single(transfer);
  const char* const why = !one_process            ? "the two ends are not in one process"
                          : !label->second.copies ? "the path policy excludes it"
                          : !one_sided            ? "engines carry single puts and gets alone"
                          : of_host && to_host
                              ? "between host memory and host memory the NIC is as good"
                              : "no engine of this process copies between the two memories";
  tried.refusal = make_error(Errc::not_supported, Stage::post, why);
  return tried;
}

PathTried WorkerState::ipc_of(const TransferState& transfer) const {
  PathTried tried{.path = Path::ipc, .taken = transfer.path == Path::ipc, .nic = {}, .refusal = {}};
  if (tried.taken) return tried;
  tried.refusal = make_error(Errc::not_supported, Stage::post, why_not_ipc(transfer));
  return tried;
}

const char* WorkerState::why_not_ipc(const TransferState& transfer) const {
  const auto found = labels.find(transfer.connection);
  if (found == labels.end() || !found->second.one_node || found->second.one_process)
    return "the two ends are not in two processes of one node";
  const auto& label = found->second;
  if (!label.shares) return "the path policy excludes it";
  if (!is_single(transfer)) return "engines carry single puts and gets alone";
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
  if (detail::path_of(transfer.remote) < Path::staged) {
    if (of_host) return "the NIC reaches the peer's memory, and this end's is the host's";
    if (!label.shares_first)
      return "the NIC needs nothing of the peer's process, and no policy names ipc";
  }
  if (transfer.bytes < context.settings().endpoint.ipc_from_bytes)
    return "there is less of it than HBMWIRE_IPC_FROM says";
  if (label.ipc_refused) {
    return "the one end has no handle of its memory, or the other could not open it; the log of "
           "both says why";
  }
  return of_host ? "this end's host memory is not `shared`, so that no other process opens it"
                 : "what the NIC wrote to the memory before can't be flushed by this key";
}

}  // namespace detail

std::string_view to_string(CompletionLevel level) noexcept {
  switch (level) {
    case CompletionLevel::sent:
      return "sent";
    case CompletionLevel::arrived:
      return "arrived";
    case CompletionLevel::visible:
      return "visible";
  }
  return "?";
}

std::string_view to_string(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::direct:
      return "direct";
    case Protocol::inlined:
      return "inlined";
    case Protocol::eager:
      return "eager";
    case Protocol::rendezvous_read:
      return "rendezvous_read";
    case Protocol::rendezvous_write:
      return "rendezvous_write";
    case Protocol::proxied:
      return "served";
  }
  return "?";
}

namespace {

/// The worker has a lock, or may go with this handle.
[[gnu::noinline]] void let_go_with_care(detail::TransferState& transfer) noexcept {
  detail::WorkerState& worker = *transfer.worker;
  const bool last = detail::under_lock(worker, [&] {
    transfer.held = false;
    if (transfer.is_over()) worker.give_back(transfer);
    return worker.orphaned && --worker.held == 0;
  });
  if (last) worker.end();
}

}  // namespace

void Transfer::let_go() noexcept {
  detail::TransferState& transfer = *std::exchange(state_, nullptr);
  if (transfer.guarded) [[unlikely]]
    return let_go_with_care(transfer);
  transfer.held = false;
  if (transfer.is_over()) transfer.worker->give_back(transfer);
}

bool Transfer::done() const noexcept {
  if (!state_->guarded) [[likely]]
    return state_->is_over();
  return detail::under_lock(*state_->worker, [&] { return state_->is_over(); });
}

Result<bool> Transfer::poll() {
  return guarded(Stage::complete, [&]() -> Result<bool> {
    const detail::TransferState& transfer = *state_;
    detail::WorkerState& worker = *transfer.worker;
    const detail::WorkerLock lock(worker);
    if (!transfer.is_over()) {
      HBMWIRE_TRY(worker.check_process(Stage::complete));
      worker.progress();
    }
    if (!transfer.is_over()) return false;
    if (has_succeeded(transfer)) [[likely]]
      return true;
    return tl::make_unexpected(worker.error_of(transfer));
  });
}

Result<void> Transfer::wait(const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<void> {
    detail::TransferState& transfer = *state_;
    detail::WorkerState& worker = *transfer.worker;
    const detail::WorkerLock lock(worker);
    const auto waited = worker.drive(wait, [&] { return transfer.is_over(); });
    HBMWIRE_TRY(worker.check_process(Stage::complete));
    if (!waited && !transfer.is_over()) {
      worker.cancel(transfer, waited.error());
      HBMWIRE_TRY(worker.drive_to_end(transfer));
    }
    if (has_succeeded(transfer)) return {};
    return tl::make_unexpected(worker.error_of(transfer));
  });
}

bool Transfer::has_ended_well() {
  detail::WorkerState& worker = *state_->worker;
  const detail::WorkerLock lock(worker);
  if (!state_->is_over()) worker.progress();
  return has_succeeded(*state_);
}

Result<void> Transfer::cancel() {
  return guarded(Stage::complete, [&]() -> Result<void> {
    detail::TransferState& transfer = *state_;
    detail::WorkerState& worker = *transfer.worker;
    const detail::WorkerLock lock(worker);
    if (transfer.is_over()) return {};
    HBMWIRE_TRY(worker.check_process(Stage::complete));
    worker.cancel(transfer,
                  make_error(Errc::cancelled, Stage::complete, "the transfer was cancelled",
                             transfer.endpoint == nullptr ? "" : transfer.endpoint->peer));
    HBMWIRE_TRY(worker.drive_to_end(transfer));
    if (has_succeeded(transfer) || transfer.settled) return {};
    return tl::make_unexpected(make_error(Errc::timed_out, Stage::complete,
                                          "the peer did not say that its side is closed", {},
                                          Hint::peer_unsettled));
  });
}

bool Transfer::settled() const noexcept {
  return detail::under_lock(*state_->worker, [&] { return state_->settled; });
}

std::uint64_t Transfer::bytes() const noexcept {
  return detail::under_lock(*state_->worker, [&] { return state_->bytes; });
}

std::uint64_t Transfer::value() const noexcept {
  return detail::under_lock(*state_->worker, [&] { return state_->value; });
}

Path Transfer::path() const noexcept {
  const detail::TransferState& transfer = *state_;
  const detail::WorkerLock lock(*transfer.worker);
  return transfer.worker->path_of(transfer);
}

TransferReport Transfer::explain() const {
  const detail::TransferState& transfer = *state_;
  const detail::WorkerState& worker = *transfer.worker;
  const detail::WorkerLock lock(*transfer.worker);
  TransferReport report;
  report.path = worker.path_of(transfer);
  report.protocol = transfer.protocol;
  if (const auto label = worker.labels.find(transfer.connection); label != worker.labels.end()) {
    report.nic = label->second.nic;
    report.peer = label->second.peer;
    if (transfer.as<detail::Railed>() != nullptr) {
      const detail::RailUse& use = worker.rail_uses[worker.index_of(transfer)];
      for (std::size_t i = 0; i < label->second.rails.size(); ++i)
        report.rails.push_back({label->second.rails[i], use.bytes[i]});
    }
  }
  if (const auto* const paths = detail::record_at(transfer.record); paths != nullptr) {
    report.local_type = paths->type;
    report.local = paths->tried;
  }
  if (transfer.remote != detail::kUnknownRemote) {
    report.remote_type = detail::type_of(transfer.remote);
    report.remote_path = detail::path_of(transfer.remote);
  }
  report.copy = worker.copy_of(transfer);
  report.ipc = worker.ipc_of(transfer);
  return report;
}

namespace {

std::string nics_of(const TransferReport& report) {
  if (report.rails.empty()) return report.nic;
  std::string text;
  for (const RailReport& rail : report.rails)
    text += (text.empty() ? "" : " and ") + rail.nic + ": " + std::to_string(rail.bytes) + " B";
  return text;
}

}  // namespace

std::string describe(const TransferReport& report) {
  const auto taken = std::ranges::find_if(report.local, &PathTried::taken);
  std::string text(to_string(report.protocol));
  text += ", from here (";
  text += to_string(report.local_type);
  if (taken != report.local.end()) text += " by " + std::string(to_string(taken->path));
  text += ", " + nics_of(report) + ") with " + report.peer;
  if (report.remote_type && report.remote_path) {
    text += " (" + std::string(to_string(*report.remote_type)) + " by " +
            std::string(to_string(*report.remote_path)) + ")";
  }
  // What neither end's memory tells.
  const bool told = taken != report.local.end() && taken->path == report.path;
  const bool by_both = report.path == Path::nic_loopback || report.path >= Path::staged;
  if (!told && by_both) text += ", " + std::string(to_string(report.path));
  for (auto better = report.local.begin(); better != taken; ++better) {
    if (better->path == Path::zero_copy && report.local_type == MemoryType::host) break;
    if (better->refusal)
      text +=
          "; not by " + std::string(to_string(better->path)) + ": " + describe(*better->refusal);
  }
  return text;
}

}  // namespace hbmwire
