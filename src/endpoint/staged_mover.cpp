// SPDX-License-Identifier: MIT
#include "endpoint/staged_mover.hpp"

#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using Piece = StagedJob::Piece;
using State = Piece::State;
using Then = TransferState::Then;

// Of one transfer: with two at the engine and two at the NIC neither waits for the other.
constexpr std::size_t kMostPieces = 4;

}  // namespace

StagedMover::StagedMover(WorkerState& worker, transport::PiecePool pool)
    : worker_(worker), pool_(std::move(pool)) {}

Result<std::unique_ptr<StagedMover>> StagedMover::create(WorkerState& worker, const Nic& nic) {
  using transport::PiecePool;
  HBMWIRE_TRY_ASSIGN(
      const Allocation memory,
      worker.context.allocate(MemoryType::host, PiecePool::kPieces * PiecePool::kPieceBytes));
  HBMWIRE_TRY_ASSIGN(Region region, nic.register_memory(memory, Access::local_write));
  return std::make_unique<StagedMover>(worker, PiecePool(std::move(region), nic));
}

StagedJob* StagedMover::job_of(const TransferState& transfer) const noexcept {
  const auto job =
      std::ranges::find(jobs_, &transfer, [](const auto& each) { return each->transfer; });
  return job == jobs_.end() ? nullptr : job->get();
}

bool StagedMover::has(const TransferState& transfer) const noexcept {
  return job_of(transfer) != nullptr;
}

void StagedMover::begin(TransferState& transfer) {
  const transport::Operation& operation = transfer.operation;
  jobs_.push_back(std::make_unique<StagedJob>(StagedJob{.transfer = &transfer,
                                                        .endpoint = transfer.endpoint,
                                                        .memory = transfer.region->allocation,
                                                        .out = operation.opcode != IBV_WR_RDMA_READ,
                                                        .length_bytes = operation.length,
                                                        .begun_bytes = 0,
                                                        .pieces = {},
                                                        .error = {}}));
  ++transfer.parts;
  ++transfer.endpoint->moving;
  ++worker_.staged;
}

bool StagedMover::go_on(TransferState& transfer) noexcept {
  StagedJob& job = *job_of(transfer);
  const auto goes_on = [&] { return job.endpoint->phase == EndpointPhase::ready && !job.error; };
  take_completions(job);
  ask_engine(job);
  if (goes_on()) post_ready(job);
  if (goes_on()) start_pieces(job);
  if (!goes_on()) drop_pieces(job);
  return job.pieces.empty() && (job.all_begun() || !goes_on());
}

/// What the NIC has given back: its requests are over in the order in which they were posted.
void StagedMover::take_completions(StagedJob& job) noexcept {
  const EndpointState& endpoint = *job.endpoint;
  const auto is_over = [&](const Piece& piece) {
    return piece.state == State::at_nic &&
           static_cast<std::int32_t>(endpoint.head - endpoint.outstanding - piece.slot) > 0;
  };
  // A failed READ has ended the endpoint, and brought nothing.
  const bool brings = !job.out && endpoint.phase == EndpointPhase::ready && !job.error;
  for (Piece& piece : job.pieces) {
    if (!is_over(piece)) continue;
    piece.state = State::moved;
    ++worker_.happenings;
    if (!brings) continue;
    auto copy = job.memory.domain().start_copy_in(
        job.transfer->operation.local + piece.offset_bytes, {piece.memory, piece.length_bytes});
    if (!copy) {
      job.error = copy.error();
      return;
    }
    piece.copy = std::move(*copy);
    piece.state = State::copying;
  }
}

void StagedMover::ask_engine(StagedJob& job) noexcept {
  for (Piece& piece : job.pieces) {
    if (piece.state != State::copying) continue;
    const auto done = piece.copy.poll();
    if (done && !*done) continue;
    if (!done && !job.error) job.error = done.error();
    piece.state = done && job.out ? State::ready : State::moved;
    ++worker_.happenings;
  }
  while (!job.pieces.empty() && job.pieces.front().state == State::moved) {
    pool_.give_back(job.pieces.front().memory);
    job.pieces.pop_front();
  }
}

/// In their order: the last one may carry an immediate.
void StagedMover::post_ready(StagedJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  const transport::Operation& whole = job.transfer->operation;
  for (Piece& piece : job.pieces) {
    if (piece.state == State::at_nic || piece.state == State::moved) continue;
    const bool last = piece.offset_bytes + piece.length_bytes == job.length_bytes;
    const bool takes_credit = last && whole.with_immediate;
    if (piece.state != State::ready || endpoint.room < 2 || (takes_credit && endpoint.credits == 0))
      return;
    transport::Operation operation = whole;
    operation.local = reinterpret_cast<std::uint64_t>(piece.memory);
    operation.local_key = pool_.local_key();
    operation.remote = whole.remote + piece.offset_bytes;
    operation.length = piece.length_bytes;
    operation.with_immediate = takes_credit;
    operation.flushed = last && whole.flushed;
    piece.slot = endpoint.head;
    piece.state = State::at_nic;
    if (const int result = endpoint.post(operation, job.transfer); result != 0) {
      if (endpoint.head == piece.slot) piece.state = State::moved;  // nothing of it is posted
      endpoint.fail(system_error(Stage::post, "ibv_post_send", result, endpoint.nic->info.name),
                    job.transfer);
      return;
    }
    if (takes_credit) --endpoint.credits;
  }
}

void StagedMover::start_pieces(StagedJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  const std::uint64_t most = std::min(transport::PiecePool::kPieceBytes, endpoint.max_message);
  while (!job.all_begun() && job.pieces.size() < kMostPieces) {
    if (!job.out && endpoint.room < 2) return;
    Piece piece{.memory = pool_.take(),
                .offset_bytes = job.begun_bytes,
                .length_bytes = std::min(most, job.length_bytes - job.begun_bytes)};
    if (piece.memory == nullptr) return;
    std::byte* const memory = piece.memory;
    const std::uint64_t length = piece.length_bytes;
    if (!start_piece(job, std::move(piece))) {
      pool_.give_back(memory);
      return;
    }
    job.begun_bytes += length;
  }
}

/// False: nothing touches the piece.
bool StagedMover::start_piece(StagedJob& job, Piece piece) noexcept {
  EndpointState& endpoint = *job.endpoint;
  const transport::Operation& whole = job.transfer->operation;
  if (job.out) {
    auto copy = job.memory.domain().start_copy_out(whole.local + piece.offset_bytes,
                                                   {piece.memory, piece.length_bytes});
    if (!copy) {
      job.error = copy.error();
      return false;
    }
    piece.copy = std::move(*copy);
  } else {
    transport::Operation operation = whole;
    operation.local = reinterpret_cast<std::uint64_t>(piece.memory);
    operation.local_key = pool_.local_key();
    operation.remote = whole.remote + piece.offset_bytes;
    operation.length = piece.length_bytes;
    piece.slot = endpoint.head;
    if (const int result = endpoint.post(operation, job.transfer); result != 0) {
      endpoint.fail(system_error(Stage::post, "ibv_post_send", result, endpoint.nic->info.name),
                    job.transfer);
      return false;
    }
    piece.state = State::at_nic;
  }
  job.pieces.push_back(std::move(piece));
  return true;
}

/// It is not gone on with: what waits for the NIC does so in vain. With the engine and with the NIC
/// the others stay until these give them back.
void StagedMover::drop_pieces(StagedJob& job) noexcept {
  for (Piece& piece : job.pieces) {
    if (piece.state == State::ready) piece.state = State::moved;
  }
  std::erase_if(job.pieces, [&](const Piece& piece) {
    if (piece.state == State::moved) pool_.give_back(piece.memory);
    return piece.state == State::moved;
  });
}

bool StagedMover::finish(TransferState& transfer) noexcept {
  const auto place =
      std::ranges::find(jobs_, &transfer, [](const auto& each) { return each->transfer; });
  // Goes at once: it keeps the memory allocated.
  const std::unique_ptr<StagedJob> job = std::move(*place);
  jobs_.erase(place);
  EndpointState& endpoint = *job->endpoint;
  const bool moved = !job->error && endpoint.phase == EndpointPhase::ready;
  if (job->error && endpoint.phase == EndpointPhase::ready) {
    // Who has been told that it comes waits for word of it.
    if (transfer.protocol == Protocol::rendezvous_write) {
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
  ++worker_.happenings;
  endpoint.on_moved(transfer);
}

void StagedMover::bring(TransferState& transfer) {
  const Arrived& message = *transfer.message;
  ++transfer.parts;
  ++transfer.endpoint->moving;
  ++worker_.staged;
  auto job = std::make_unique<StagedMessage>(StagedMessage{.transfer = &transfer,
                                                           .endpoint = transfer.endpoint,
                                                           .memory = transfer.region->allocation,
                                                           .copy = {}});
  auto copy = job->memory.domain().start_copy_in(transfer.operation.local,
                                                 {message.bytes, message.header.length});
  if (copy) {
    job->copy = std::move(*copy);
  } else {
    worker_.errors[worker_.index_of(transfer)] = copy.error();
    transfer.then = Then::fail;
  }
  messages_.push_back(std::move(job));
}

bool StagedMover::drive(StagedMessage& message) noexcept {
  const auto done = message.copy.poll();
  if (done && !*done) return false;
  TransferState& transfer = *std::exchange(message.transfer, nullptr);
  if (!done && transfer.then != Then::fail) {
    worker_.errors[worker_.index_of(transfer)] = done.error();
    transfer.then = Then::fail;
  }
  over(transfer, *message.endpoint);
  return true;
}

std::size_t StagedMover::progress() noexcept {
  const std::uint64_t before = worker_.happenings;
  // By index: what is over may begin something else.
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i]->transfer != nullptr) drive(*messages_[i]);
  }
  // One that is over leaves the list; who follows it is asked the next time.
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    StagedJob& job = *jobs_[i];
    if (job.endpoint->phase == EndpointPhase::ready) {
      job.endpoint->post_waiting();
    } else if (go_on(*job.transfer)) {
      finish(*job.transfer);
    }
  }
  std::erase_if(messages_, [](const auto& message) { return message->transfer == nullptr; });
  return static_cast<std::size_t>(worker_.happenings - before);
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
    const std::unique_ptr<StagedJob> job = std::move(jobs_.back());
    jobs_.pop_back();
    job->pieces.clear();  // waits
    worker_.errors[worker_.index_of(*job->transfer)] = why;
    job->transfer->then = Then::fail;
    over(*job->transfer, *job->endpoint);
  }
}

}  // namespace hbmwire::detail
