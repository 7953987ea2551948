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

// Of one endpoint: its peer asks for no more at a time where its own memory is staged, too.
constexpr std::uint32_t kMostServed = 4;

/// Whether the key that the peer names opens all of what it asks for.
Result<void> check(const ServeRequest& request) {
  HBMWIRE_TRY_ASSIGN(const ExportHold hold, ExportHold::take(request.header.tag, request.needed(),
                                                             request.at, request.header.length));
  return {};
}

}  // namespace

StagedMover::StagedMover(WorkerState& worker, PiecePool pool)
    : worker_(worker), pool_(std::move(pool)) {}

Result<std::unique_ptr<StagedMover>> StagedMover::create(WorkerState& worker, const Nic* nic) {
  HBMWIRE_TRY_ASSIGN(PiecePool pool, PiecePool::create(worker.context, nic, PiecePool::kPieces,
                                                       Access::local_write));
  return std::make_unique<StagedMover>(worker, std::move(pool));
}

StagedJob* StagedMover::job_of(const TransferState& transfer) const noexcept {
  const auto job =
      std::ranges::find(jobs_, &transfer, [](const auto& each) { return each->transfer; });
  return job == jobs_.end() ? nullptr : job->get();
}

bool StagedMover::has(const TransferState& transfer) const noexcept {
  return job_of(transfer) != nullptr;
}

StagedJob& StagedMover::add(std::unique_ptr<StagedJob> job) {
  jobs_.push_back(std::move(job));
  ++jobs_.back()->endpoint.moving;
  ++worker_.staged;
  return *jobs_.back();
}

std::unique_ptr<StagedJob> StagedMover::take_out(const StagedJob& job) noexcept {
  const auto place = std::ranges::find(jobs_, &job, [](const auto& each) { return each.get(); });
  std::unique_ptr<StagedJob> taken = std::move(*place);
  jobs_.erase(place);
  return taken;
}

bool StagedMover::begin(TransferState& transfer) noexcept {
  EndpointState& endpoint = *transfer.endpoint;
  const bool asks = transfer.protocol == Protocol::proxied;
  const auto begun = guarded(Stage::complete, [&]() -> Result<void> {
    StagedJob& job = add(std::make_unique<StagedJob>(
        asks ? StagedJob::Kind::asks : StagedJob::Kind::nic, endpoint, &transfer,
        transfer.operation, asks ? endpoint.pieces.own() : pool_));
    job.memory = transfer.region->allocation;
    job.token = transfer.tag;
    return {};
  });
  if (begun) {
    ++transfer.parts;
  } else {
    endpoint.fail(begun.error(), &transfer);
  }
  return begun.has_value();
}

bool StagedMover::go_on(TransferState& transfer) noexcept { return job_of(transfer)->go_on(); }

bool StagedMover::on_proxied(TransferState& transfer, const MessageHeader& answer) noexcept {
  StagedJob* const job = job_of(transfer);
  return job != nullptr && job->on_proxied(answer);
}

bool StagedMover::finish(TransferState& transfer) noexcept {
  // Goes at once: it keeps the memory allocated.
  const std::unique_ptr<StagedJob> job = take_out(*job_of(transfer));
  EndpointState& endpoint = job->endpoint;
  const bool moved = !job->error && endpoint.phase == EndpointPhase::ready;
  if (job->error && endpoint.phase == EndpointPhase::ready) {
    // Who has been told that it comes waits for word of it. What a key forbids ends the endpoint,
    // whoever finds out.
    if (transfer.protocol == Protocol::rendezvous_write || job->denied) {
      endpoint.fail(*job->error, &transfer);
    } else {
      worker_.errors[worker_.index_of(transfer)] = *job->error;
      transfer.then = Then::fail;
    }
  }
  over(transfer, endpoint);
  return moved;
}

void StagedMover::over(TransferState& transfer, EndpointState& endpoint) noexcept {
  --worker_.staged;
  --transfer.parts;
  --endpoint.moving;
  ++worker_.event_count;
  // What the peer was asked by may not be acknowledged yet, nor the immediate.
  if (transfer.parts == 0) endpoint.on_moved(transfer);
}

void StagedMover::bring(TransferState& transfer) noexcept {
  const UnexpectedMessage& message = *transfer.message;
  ++transfer.parts;
  ++transfer.endpoint->moving;
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
  over(transfer, *transfer.endpoint);
}

void StagedMover::note(TransferState& transfer, const Error& why) noexcept {
  worker_.errors[worker_.index_of(transfer)] = why;
  transfer.then = Then::fail;
}

bool StagedMover::drive(StagedMessage& message) noexcept {
  const auto done = message.copy.poll();
  if (done && !*done) return false;
  TransferState& transfer = *std::exchange(message.transfer, nullptr);
  if (!done && transfer.then != Then::fail) note(transfer, done.error());
  over(transfer, *message.endpoint);
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
      add(std::make_unique<StagedJob>(StagedJob::Kind::serves, endpoint, nullptr, whole, pool_));
  ++endpoint.serving;
  job.token = header.tag;
  job.id = header.id;
  job.mapped = endpoint.pieces.find(header.address, header.length);
  // Before a byte moves: as a NIC looks at a request.
  if (const auto allowed = check(request); !allowed) {
    job.denied = allowed.error().code != Errc::exhausted;
    job.error = allowed.error();
  }
}

void StagedMover::serve(EndpointState& endpoint) noexcept {
  while (endpoint.serving < kMostServed && !endpoint.to_serve.empty()) {
    const ServeRequest request = endpoint.to_serve.front();
    endpoint.to_serve.pop_front();
    const auto begun = guarded(Stage::complete, [&]() -> Result<void> {
      begin_serving(endpoint, request);
      return {};
    });
    if (!begun) endpoint.answer_request(request.header.id, MessageHeader::Outcome::refused, 0);
  }
  for (std::size_t i = 0; i < jobs_.size();) {
    StagedJob& job = *jobs_[i];
    const bool ours = job.kind == StagedJob::Kind::serves && &job.endpoint == &endpoint;
    if (ours && job.go_on()) {
      answer(*take_out(job));
    } else {
      ++i;
    }
  }
}

/// Says how it went, and that it is no longer under way here.
void StagedMover::answer(const StagedJob& job) noexcept {
  EndpointState& endpoint = job.endpoint;
  --worker_.staged;
  --endpoint.moving;
  --endpoint.serving;
  ++worker_.event_count;
  if (endpoint.phase == EndpointPhase::ready) {
    return endpoint.answer_request(job.id,
                                   job.denied  ? MessageHeader::Outcome::denied
                                   : job.error ? MessageHeader::Outcome::refused
                                               : MessageHeader::Outcome::taken,
                                   job.whole.length);
  }
  endpoint.on_moved_for_peer();
}

std::size_t StagedMover::progress() noexcept {
  const std::uint64_t before = worker_.event_count;
  // By index: what is over may begin something else.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i]->transfer != nullptr) drive(*messages_[i]);
  }
  // One that is over leaves the list; who follows it is asked the next time.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    StagedJob& job = *jobs_[i];
    if (job.endpoint.phase == EndpointPhase::ready) {
      job.endpoint.post_waiting();
    } else if (job.go_on()) {
      if (job.transfer != nullptr) {
        finish(*job.transfer);
      } else {
        answer(*take_out(job));
      }
    }
  }
  std::erase_if(messages_, [](const auto& message) { return message->transfer == nullptr; });
  return static_cast<std::size_t>(worker_.event_count - before);
}

void StagedMover::end(const Error& why) noexcept {
  for (const auto& message : messages_) {
    if (message->transfer == nullptr) continue;
    message->copy = PendingCopy();  // waits
    TransferState& transfer = *std::exchange(message->transfer, nullptr);
    worker_.errors[worker_.index_of(transfer)] = why;
    transfer.then = Then::fail;
    over(transfer, *message->endpoint);
  }
  while (!jobs_.empty()) {
    const std::unique_ptr<StagedJob> job = take_out(*jobs_.back());
    job->stop();
    if (job->transfer == nullptr) {
      answer(*job);
      continue;
    }
    worker_.errors[worker_.index_of(*job->transfer)] = why;
    job->transfer->then = Then::fail;
    over(*job->transfer, job->endpoint);
  }
}

}  // namespace hbmwire::detail
