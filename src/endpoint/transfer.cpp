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

/// True: it has succeeded; false: it goes on; an error: why it failed.
Result<bool> outcome_of(const detail::TransferState& transfer) {
  if (!transfer.is_over()) return false;
  if (has_succeeded(transfer)) [[likely]]
    return true;
  return tl::make_unexpected(transfer.worker->transfers.error_of(transfer));
}

Error cancelled(const detail::TransferState& transfer) noexcept {
  return make_error(Errc::cancelled, Stage::complete, "the transfer was cancelled",
                    transfer.endpoint == nullptr ? "" : transfer.endpoint->peer);
}

}  // namespace

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
      return "proxied";
  }
  return "?";
}

namespace {

/// For transfers whose worker has a lock, may go with this handle, or must tell of the transfer
/// first.
[[gnu::noinline]] void let_go_with_care(detail::TransferState& transfer) noexcept {
  detail::WorkerState& worker = *transfer.worker;
  const bool last = detail::under_lock(worker, [&] {
    transfer.held = false;
    const bool is_told = (transfer.at_end & detail::AtEnd::kTell) == 0;
    if (transfer.is_over() && is_told) worker.transfers.give_back(transfer);
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
  if (transfer.is_over()) transfer.worker->transfers.give_back(transfer);
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
    return outcome_of(transfer);
  });
}

Result<bool> Transfer::poll_until(const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<bool> {
    const detail::TransferState& transfer = *state_;
    detail::WorkerState& worker = *transfer.worker;
    const detail::WorkerLock lock(worker);
    if (!transfer.is_over())
      HBMWIRE_TRY(worker.drive_until(wait, [&] { return transfer.is_over(); }));
    return outcome_of(transfer);
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
    return tl::make_unexpected(worker.transfers.error_of(transfer));
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
    worker.cancel(transfer, cancelled(transfer));
    HBMWIRE_TRY(worker.drive_to_end(transfer));
    if (has_succeeded(transfer) || transfer.settled) return {};
    return tl::make_unexpected(make_error(Errc::timed_out, Stage::complete,
                                          "the peer did not say that its side is closed", {},
                                          Hint::peer_unsettled));
  });
}

Result<void> Transfer::request_cancel() {
  return guarded(Stage::complete, [&]() -> Result<void> {
    detail::TransferState& transfer = *state_;
    detail::WorkerState& worker = *transfer.worker;
    const detail::WorkerLock lock(worker);
    HBMWIRE_TRY(worker.check_process(Stage::complete));
    if (!transfer.is_over()) worker.cancel(transfer, cancelled(transfer));
    return {};
  });
}

void Transfer::notify(std::uint64_t cookie) noexcept {
  detail::WorkerState& worker = *state_->worker;
  const detail::WorkerLock lock(worker);
  worker.tell_when_done(*state_, cookie);
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
  return transfer.worker->labels.path_of(transfer);
}

TransferReport Transfer::explain() const {
  const detail::TransferState& transfer = *state_;
  const detail::WorkerState& worker = *transfer.worker;
  const detail::WorkerLock lock(*transfer.worker);
  TransferReport report;
  report.path = worker.labels.path_of(transfer);
  report.protocol = transfer.protocol;
  if (const auto* const label = worker.labels.find(transfer.connection); label != nullptr) {
    report.nic = label->nic;
    report.peer = label->peer;
    if (transfer.as<detail::Railed>() != nullptr) {
      const detail::RailUse& use = worker.transfers.rail_use_of(transfer);
      for (std::size_t i = 0; i < label->rails.size(); ++i)
        report.rails.push_back({label->rails[i], use.bytes[i]});
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
  if ((transfer.at_end & detail::AtEnd::kTime) != 0)
    report.times = worker.transfers.times_of(transfer);
  report.copy = worker.labels.copy_of(transfer);
  report.ipc = worker.labels.ipc_of(transfer, worker.context.settings().endpoint.ipc_from_bytes);
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
  if (report.path != Path::shared_memory) text += ", " + nics_of(report);
  text += ") with " + report.peer;
  if (report.remote_type && report.remote_path) {
    text += " (" + std::string(to_string(*report.remote_type)) + " by " +
            std::string(to_string(*report.remote_path)) + ")";
  }
  // Names the path, if the memory of the two ends does not show it.
  const bool told = taken != report.local.end() && taken->path == report.path;
  const bool by_both = report.path == Path::nic_loopback || report.path >= Path::staged;
  if (!told && by_both) text += ", " + std::string(to_string(report.path));
  for (auto better = report.local.begin(); better != taken; ++better) {
    // Host memory is registered by address: no other path of a NIC would be better.
    if (better->path == Path::zero_copy && report.local_type == MemoryType::host) break;
    if (better->refusal)
      text +=
          "; not by " + std::string(to_string(better->path)) + ": " + describe(*better->refusal);
  }
  return text;
}

}  // namespace hbmwire
