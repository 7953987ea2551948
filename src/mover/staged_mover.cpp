// SPDX-License-Identifier: MIT
#include "mover/staged_mover.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using transport::PiecePool;
using wire::MessageHeader;
using Then = TransferState::Then;

/// Whether the key that the peer names opens all memory of the request.
Result<void> check(const ServeRequest& request) {
  HBMWIRE_TRY_ASSIGN(const ExportHold hold, ExportHold::take(request.header.tag, request.needed(),
                                                             request.at, request.header.length));
  return {};
}

}  // namespace

StagedMover::StagedMover(WorkerState& worker, const Nic* nic) : worker_(worker) {
  if (nic != nullptr) nic_ = *nic;
}

Result<void> StagedMover::prepare() {
  if (pool_) return {};
  HBMWIRE_TRY_ASSIGN(PiecePool pool, PiecePool::create(worker_.context, nic_ ? &*nic_ : nullptr,
                                                       PiecePool::kPieces, Access::local_write));
  pool_.emplace(std::move(pool));
  return {};
}

bool StagedMover::takes(const EndpointState& endpoint, const Move& move) const {
  return endpoint.paths.is_staged(move.local().path);
}

Result<void> StagedMover::start(TransferState& transfer, transport::Operation& /*operation*/,
                                const Move& move) {
  SharedPieces& pieces = transfer.endpoint->movers.pieces;
  const bool over_tcp = pieces.may_carry(move.local(), move.distant(), move.here.length_bytes);
  transfer.region = &move.local();
  transfer.then = Then::over;
  transfer.move_by(*this, Staged{move.distant().token});
  if (move.distant().path != Path::staged && !over_tcp) return {};
  transfer.protocol = Protocol::proxied;
  if (over_tcp) transfer.path = Path::staged;
  return guarded(Stage::post, [&] { return pieces.open(); });
}

/// Null: the transfer has none yet.
StagedJob* StagedMover::job_of(const TransferState& transfer) const noexcept {
  const auto job =
      std::ranges::find(jobs_, &transfer, [](const auto& each) { return each->transfer; });
  return job == jobs_.end() ? nullptr : job->get();
}

/// Throws std::bad_alloc.
StagedJob& StagedMover::add(std::unique_ptr<StagedJob> job) {
  jobs_.push_back(std::move(job));
  ++jobs_.back()->endpoint.movers.moving;
  ++worker_.staged;
  return *jobs_.back();
}

std::unique_ptr<StagedJob> StagedMover::take_out(const StagedJob& job) noexcept {
  const auto place = std::ranges::find(jobs_, &job, [](const auto& each) { return each.get(); });
  std::unique_ptr<StagedJob> taken = std::move(*place);
  jobs_.erase(place);
  return taken;
}

/// Makes the transfer's job. False: there is no memory, and the endpoint has failed.
bool StagedMover::begin(TransferState& transfer) noexcept {
  EndpointState& endpoint = *transfer.endpoint;
  const bool asks = transfer.protocol == Protocol::proxied;
  const auto begun = guarded(Stage::complete, [&]() -> Result<void> {
    StagedJob& job = add(std::make_unique<StagedJob>(
        asks ? StagedJob::Kind::asks : StagedJob::Kind::nic, endpoint, &transfer,
        transfer.operation, asks ? endpoint.movers.pieces.own() : *pool_));
    job.memory = transfer.region->allocation;
    if (const Staged* const staged = transfer.as<Staged>()) job.token = staged->token;
    return {};
  });
  if (begun) {
    ++transfer.parts;
  } else {
    endpoint.fail(begun.error(), &transfer);
  }
  return begun.has_value();
}

bool StagedMover::advance(TransferState& transfer) noexcept {
  if (job_of(transfer) == nullptr) {
    // The pieces go by the same queue pair as earlier operations, and so arrive after them.
    if (!transfer.endpoint->movers.pieces.settle(transfer) || !begin(transfer)) return false;
  }
  return job_of(transfer)->advance();
}

bool StagedMover::on_answer(TransferState& transfer, const MessageHeader& answer) noexcept {
  StagedJob* const job = job_of(transfer);
  if (job == nullptr || !job->on_proxied(answer)) return false;
  transfer.endpoint->messages.end_asking(transfer, answer.id);
  ++worker_.event_count;
  return true;
}

bool StagedMover::finish(TransferState& transfer) noexcept {
  // Taken out at once, since the job keeps the memory allocated.
  const std::unique_ptr<StagedJob> job = take_out(*job_of(transfer));
  EndpointState& endpoint = job->endpoint;
  const bool moved = !job->error && endpoint.phase == EndpointPhase::ready;
  if (job->error && endpoint.phase == EndpointPhase::ready) {
    // A receiver that has asked for these bytes waits for them, so the endpoint must fail. A
    // request that a key forbids ends the endpoint, too, as with a NIC.
    if (transfer.protocol == Protocol::rendezvous_write || job->denied) {
      endpoint.fail(*job->error, &transfer);
    } else {
      worker_.transfers.set_error(transfer, *job->error);
      transfer.then = Then::fail;
    }
  }
  end_transfer(transfer, endpoint);
  return moved;
}

/// A transfer is no longer here.
void StagedMover::end_transfer(TransferState& transfer, EndpointState& endpoint) noexcept {
  --worker_.staged;
  --transfer.parts;
  --endpoint.movers.moving;
  ++worker_.event_count;
  // The request to the peer, or the immediate, may not be acknowledged yet.
  if (transfer.parts == 0) endpoint.on_moved(transfer);
}

void StagedMover::bring(TransferState& transfer) noexcept {
  const UnexpectedMessage& message = *transfer.as<Message>()->record;
  ++transfer.parts;
  ++transfer.endpoint->movers.moving;
  ++worker_.staged;
  const auto begun = guarded(Stage::complete, [&]() -> Result<void> {
    messages_.push_back(
        std::make_unique<StagedMessage>(StagedMessage{.transfer = &transfer,
                                                      .endpoint = transfer.endpoint,
                                                      .memory = transfer.region->allocation,
                                                      .copy = {}}));
    StagedMessage& job = *messages_.back();
    auto copy = job.memory.domain().start_copy_in(transfer.operation.local,
                                                  {message.bytes, message.header.length});
    if (copy) {
      job.copy = std::move(*copy);
    } else {
      note(transfer, copy.error());
    }
    return {};
  });
  if (begun) return;
  note(transfer, begun.error());
  end_transfer(transfer, *transfer.endpoint);
}

void StagedMover::note(TransferState& transfer, const Error& why) noexcept {
  worker_.transfers.set_error(transfer, why);
  transfer.then = Then::fail;
}

/// Asks the engine about the message's copy. True: it is over.
bool StagedMover::drive(StagedMessage& message) noexcept {
  const auto done = message.copy.poll();
  if (done && !*done) return false;
  TransferState& transfer = *std::exchange(message.transfer, nullptr);
  if (!done && transfer.then != Then::fail) note(transfer, done.error());
  end_transfer(transfer, *message.endpoint);
  return true;
}

void StagedMover::begin_serving(EndpointState& endpoint, const ServeRequest& request) {
  const MessageHeader& header = request.header;
  transport::Operation whole;
  whole.opcode =
      request.needed() == Access::remote_read ? transport::Opcode::write : transport::Opcode::read;
  whole.local = request.at;
  whole.remote = header.address;
  whole.remote_key = header.remote_key;
  whole.length = header.length;
  StagedJob& job =
      add(std::make_unique<StagedJob>(StagedJob::Kind::serves, endpoint, nullptr, whole, *pool_));
  job.token = header.tag;
  job.id = header.id;
  job.mapped = endpoint.movers.pieces.find(header.address, header.length);
  // Checked before a byte moves, as a NIC checks a request.
  const auto allowed = guarded(Stage::complete, [&] { return check(request); });
  if (!allowed) {
    job.denied = allowed.error().code != Errc::exhausted;  // a shortage is no fault of the key
    job.error = allowed.error();
  }
}

void StagedMover::advance_served(EndpointState& endpoint) noexcept {
  for (std::size_t i = 0; i < jobs_.size();) {
    StagedJob& job = *jobs_[i];
    const bool ours = job.kind == StagedJob::Kind::serves && &job.endpoint == &endpoint;
    if (ours && job.advance()) {
      end_served(*take_out(job));
    } else {
      ++i;
    }
  }
}

/// Ends a job that serves the peer.
void StagedMover::end_served(const StagedJob& job) noexcept {
  --worker_.staged;
  --job.endpoint.movers.moving;
  ++worker_.event_count;
  job.endpoint.movers.server.on_over(job);
}

std::size_t StagedMover::progress() noexcept {
  const std::uint64_t before = worker_.event_count;
  // By index, since a message that is over may begin something else.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i]->transfer != nullptr) drive(*messages_[i]);
  }
  // A job that is over leaves the list; the one that takes its place is polled in the next call.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    StagedJob& job = *jobs_[i];
    if (job.endpoint.phase == EndpointPhase::ready) {
      job.endpoint.post_waiting();
    } else if (job.advance()) {
      if (job.transfer != nullptr) {
        finish(*job.transfer);
      } else {
        end_served(*take_out(job));
      }
    }
  }
  std::erase_if(messages_, [](const auto& message) { return message->transfer == nullptr; });
  return static_cast<std::size_t>(worker_.event_count - before);
}

void StagedMover::drain(const Error& why) noexcept {
  for (const auto& message : messages_) {
    if (message->transfer == nullptr) continue;
    message->copy = PendingCopy();  // waits for the engine
    TransferState& transfer = *std::exchange(message->transfer, nullptr);
    worker_.transfers.set_error(transfer, why);
    transfer.then = Then::fail;
    end_transfer(transfer, *message->endpoint);
  }
  while (!jobs_.empty()) {
    const std::unique_ptr<StagedJob> job = take_out(*jobs_.back());
    job->stop();
    if (job->transfer == nullptr) {
      end_served(*job);
      continue;
    }
    worker_.transfers.set_error(*job->transfer, why);
    job->transfer->then = Then::fail;
    end_transfer(*job->transfer, job->endpoint);
  }
}

}  // namespace hbmwire::detail
