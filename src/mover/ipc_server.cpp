// SPDX-License-Identifier: MIT
#include "mover/ipc_server.hpp"

#include <string>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "transport/copy/engine_copy.hpp"

namespace hbmwire::detail {

namespace {

/// Two memories of one kind are copied by that kind's domain (host memory by the CPU), memories of
/// two kinds by the device's engine.
Result<PendingCopy> start_copy(const transport::CopyPlace& from, const transport::CopyPlace& to,
                               std::uint64_t length) {
  if (!to.domain.copies_from(from.domain)) return transport::start_engine_copy(from, to, length);
  return to.domain.start_copy_from(from.domain, from.address, to.address, length);
}

}  // namespace

void IpcServer::begin(EndpointState& endpoint, const wire::IpcCopy& what) {
  jobs_.push_back(std::make_unique<Job>(Job{.endpoint = &endpoint, .id = what.id}));
  ++endpoint.movers.moving;
  ++worker_.staged;
  endpoint.movers.ipc.set_serving(true);
  jobs_.back()->outcome = start(*jobs_.back(), what);
}

/// Opens a GPU's memory by the GPU that has the exported memory. Host memory is opened by the host
/// domain, whatever is exported.
Result<Allocation> IpcServer::open(MemoryDomain& ours, const IpcHandle& theirs) const {
  if (theirs.type != MemoryType::host) return ours.open_ipc(theirs);
  HBMWIRE_TRY_ASSIGN(const auto host, worker_.context.open(MemoryType::host));
  return host->open_ipc(theirs);
}

/// Opens the peer's memory before it looks at the key: while the key is held, only the engine may
/// be waited for.
IpcServer::Outcome IpcServer::start(Job& job, const wire::IpcCopy& what) const noexcept {
  const auto domain = Export::domain_of(what.token);
  if (!domain) return Outcome::denied;
  auto opened = open(*domain, what.handle);
  if (!opened) {
    job.endpoint->movers.ipc.log_refused("its memory can't be opened", opened.error());
    // A shortage passes, so the peer must not avoid IPC for good because of it.
    return is_shortage(opened.error()) ? Outcome::failed : Outcome::unopened;
  }
  const std::uint64_t length = what.handle.length_bytes;
  job.theirs.emplace(std::move(*opened));
  auto hold = ExportHold::take(what.token, what.put ? Access::remote_write : Access::remote_read,
                               what.address, length);
  if (!hold) return hold.error().code == Errc::exhausted ? Outcome::failed : Outcome::denied;
  const transport::CopyPlace theirs{job.theirs->domain(), job.theirs->address()};
  const transport::CopyPlace ours{*domain, what.address};
  auto copy = guarded(Stage::copy, [&] {
    return what.put ? start_copy(theirs, ours, length) : start_copy(ours, theirs, length);
  });
  if (!copy) {
    job.endpoint->movers.ipc.log_refused("the engine refuses it", copy.error());
    return Outcome::failed;
  }
  hold->watch(std::move(*copy));
  job.hold.emplace(std::move(*hold));
  return Outcome::copied;
}

/// Gives everything back, waiting for the engine if it is not done, and tells the peer.
void IpcServer::answer(Job& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  job.hold.reset();
  job.theirs.reset();
  endpoint.movers.ipc.set_serving(false);
  --endpoint.movers.moving;
  --worker_.staged;
  ++worker_.event_count;
  if (endpoint.phase == EndpointPhase::ready) {
    endpoint.control.say(wire::IpcCopied{job.id, job.outcome});
  } else {
    endpoint.ending.settle();
  }
}

std::size_t IpcServer::progress() noexcept {
  std::size_t answered = 0;
  for (std::size_t i = 0; i < jobs_.size();) {
    Job& job = *jobs_[i];
    const auto done = job.hold ? job.hold->poll() : Result<bool>(true);
    if (done && !*done) {
      ++i;
      continue;
    }
    if (!done) {
      job.endpoint->movers.ipc.log_refused("the engine failed", done.error());
      job.outcome = Outcome::failed;
    }
    const std::unique_ptr<Job> over = std::move(jobs_[i]);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    answer(*over);
    ++answered;
  }
  return answered;
}

void IpcServer::end() noexcept {
  while (!jobs_.empty()) {
    const std::unique_ptr<Job> job = std::move(jobs_.back());
    jobs_.pop_back();
    answer(*job);  // waits for the engine
  }
}

}  // namespace hbmwire::detail
