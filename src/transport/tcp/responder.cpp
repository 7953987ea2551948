// SPDX-License-Identifier: MIT
#include "transport/tcp/responder.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/guarded.hpp"
#include "base/guarded_copy.hpp"
#include "base/log.hpp"
#include "base/serial.hpp"

namespace hbmwire::transport {

namespace {

using detail::ExportedMemory;

// The most requests that the peer can have under way (EndpointOptions::send_depth), and one more.
constexpr std::size_t kMostAsked = 16384 + 1;
constexpr std::size_t kAnswersAtOnce = 3;  // parts: an engine fills one while another is sent

}  // namespace

FrameUser::Place place_receive(TcpLinkState& link, Numbered<Receive>& receives,
                               const wire::TcpFrame& frame, std::uint32_t offset,
                               std::span<std::byte>& memory) noexcept {
  // TCP holds the peer back until there is a receive.
  if (receives.empty()) return FrameUser::Place::later;
  const auto receive = memory_of(receives[receives.first].memory);
  if (frame.length > receive.size()) {
    link.break_protocol("the peer's message is too long");
    return FrameUser::Place::later;
  }
  memory = receive.subspan(offset, frame.length - offset);
  return FrameUser::Place::here;
}

void TcpResponder::advance() noexcept {
  if (!arriving_.empty()) [[unlikely]]
    advance_arriving();
  if (!link_.data_open && !answers_.empty()) [[unlikely]]
    advance_answers();
}

bool TcpResponder::begin_answers() noexcept {
  bool begun = false;
  advance_answers();
  while (answers_.size() < kAnswersAtOnce && begin_answer()) begun = true;
  return begun;
}

bool TcpResponder::next(OutFrame& frame) noexcept {
  for (std::optional<Frame>* const answer : {&answer_, &refusal_}) {
    if (!*answer) continue;
    frame.header = **answer;
    frame.mark = mark_of(TcpMark::nothing);
    answer->reset();
    return true;
  }
  const auto first = std::ranges::find(answers_, false, &Answer::begun);
  if (first == answers_.end() || first->hold || first->failed) return false;
  first->begun = true;
  frame.header = {.kind = Frame::Kind::data,
                  .flags = first->last ? Frame::kLast : std::uint8_t{0},
                  .length = first->length,
                  .number = first->number};
  frame.parts[0] = first->piece != nullptr ? std::span<const std::byte>(first->piece, first->length)
                                           : std::as_bytes(std::span(&first->value, 1));
  frame.mark = mark_of(TcpMark::answer);
  return true;
}

void TcpResponder::sent() noexcept {
  let_go_of(answers_.front());
  answers_.pop_front();
}

// --- where bytes go

TcpResponder::Place TcpResponder::place(const Frame& frame, std::uint32_t offset,
                                        std::span<std::byte>& memory) noexcept {
  if (rejecting_) return Place::drop;
  if (frame.kind == Frame::Kind::message) {
    // A message may announce earlier writes, so it waits until they have arrived.
    if (!arriving_.empty()) return Place::later;
    return place_receive(link_, receives_, frame, offset, memory);
  }
  if (frame.kind == Frame::Kind::write) return place_write(frame, offset, memory);
  // An atomic. No other request has bytes behind it.
  memory = std::as_writable_bytes(std::span(&operands_, 1)).subspan(offset);
  return Place::here;
}

/// The memory of a receive whose sender was asked to write to it. Valid until the sender has said
/// that it is done.
Result<TcpResponder::Target> TcpResponder::window_of(const Frame& frame) const {
  const auto refuse = [&](Errc code, const char* why) {
    return tl::make_unexpected(make_error(code, Stage::complete, why, link_.user.peer()));
  };
  const std::optional<TcpWindow> window = link_.user.window(frame.key);
  if (!window) return refuse(Errc::permission_denied, "no such receive");
  const std::uint64_t begin = window->address;
  if (frame.address < begin || frame.address - begin > window->length_bytes ||
      frame.length > window->length_bytes - (frame.address - begin)) {
    return refuse(Errc::invalid_argument, "not within the receive's memory");
  }
  Target target;
  target.address = frame.address;
  if (window->device != nullptr) {
    target.device = *window->device;
  } else {
    target.memory = std::bit_cast<std::byte*>(frame.address);
  }
  return target;
}

Result<TcpResponder::Target> TcpResponder::target_of(const Frame& frame, Access needed) const {
  if (frame.has(Frame::kWindow)) return window_of(frame);
  HBMWIRE_TRY_ASSIGN(ExportHold hold,
                     ExportHold::take(frame.key, needed, frame.address, frame.length));
  Target target;
  target.address = frame.address;
  const ExportedMemory& memory = hold.memory();
  MemoryDomain& domain = memory.allocation.domain();
  if (domain.device().type == MemoryType::host) {
    target.memory = std::bit_cast<std::byte*>(frame.address);
  } else if (domain.copy_engine().empty()) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::copy,
                                          "the device has no engine that copies",
                                          domain.device().name));
  } else {
    target.device = memory.allocation;
  }
  target.hold.emplace(std::move(hold));
  return target;
}

TcpResponder::Place TcpResponder::place_write(const Frame& frame, std::uint32_t offset,
                                              std::span<std::byte>& memory) noexcept {
  auto target = target_of(frame, Access::remote_write);
  if (!target) {
    reject(frame, target.error());
    return Place::drop;
  }
  std::byte* begin = target->memory;
  if (target->device) {
    if (piece_ == nullptr) piece_ = link_.user.take_piece(&target->device->domain());
    if (piece_ == nullptr) return Place::later;
    begin = piece_;
  } else if (target->hold) {
    hold_.emplace(std::move(*target->hold));
  }
  memory = {begin + offset, frame.length - offset};
  return target->device ? Place::here : Place::application;
}

void TcpResponder::unwritable(const Frame& frame) noexcept {
  const Error why = memory_gone(Stage::complete, link_.user.peer());
  // The refusal fails the sender's request; lose_window() fails the receive on this end.
  if (frame.has(Frame::kWindow)) link_.user.lose_window(frame.key, why);
  reject(frame, why);
}

// --- frames that have arrived

void TcpResponder::arrived(const Frame& frame) noexcept {
  if (rejecting_) return;
  switch (frame.kind) {
    case Frame::Kind::message:
      return link_.complete({.id = receives_[receives_.first++].id, .bytes = frame.length});
    case Frame::Kind::write:
      return on_write(frame);
    case Frame::Kind::read:
      return on_read(frame);
    default:
      return on_atomic(frame);
  }
}

void TcpResponder::on_write(const Frame& frame) noexcept {
  written_bytes_ += frame.length;
  Arriving part{.number = frame.number};
  if (piece_ != nullptr && !start_copy(frame, part)) return;
  if (frame.has(Frame::kLast)) {
    part.last = true;
    part.with_immediate = frame.has(Frame::kImmediate);
    part.immediate = frame.value;
    part.bytes = std::exchange(written_bytes_, 0);
  }
  // Bytes of host memory are in place. Only the end of the WRITE waits for earlier parts.
  if (part.piece == nullptr && arriving_.empty()) {
    if (part.last) end_write(part);
  } else if (part.piece != nullptr || part.last) {
    if (!keep(arriving_, part) && part.piece != nullptr) let_go_of(part);
  }
}

/// Copies from the piece into the device. Returns false if that is impossible.
bool TcpResponder::start_copy(const Frame& frame, Arriving& part) noexcept {
  std::byte* const piece = std::exchange(piece_, nullptr);
  // Checked again, because the key may have ended since its first bytes came.
  auto target = target_of(frame, Access::remote_write);
  if (!target || !target->device) {
    link_.user.give_back(piece);
    // A target without a device: the key names other memory by now.
    reject(frame, target ? Error{} : target.error());
    return false;
  }
  auto copy = target->device->domain().start_copy_in(target->address, {piece, frame.length});
  if (!copy) {
    link_.user.give_back(piece);
    reject(frame, copy.error());
    return false;
  }
  part.piece = piece;
  if (target->hold) {
    target->hold->watch(std::move(*copy));
    part.hold.emplace(std::move(*target->hold));
  } else {
    part.copy = std::move(*copy);
    part.memory = target->device;
  }
  link_.user.begin_engine();
  return true;
}

/// Ends a WRITE: all its bytes, and those of earlier requests, are in place.
void TcpResponder::end_write(const Arriving& part) noexcept {
  if (!link_.data_open) return;
  // Replaces a `done` that was not sent: this one is for all requests up to its number.
  answer_ = Frame{.kind = Frame::Kind::done, .number = part.number};
  if (!part.with_immediate) return;
  if (receives_.empty()) return link_.break_protocol("the peer sent more immediates than it may");
  link_.complete({.id = receives_[receives_.first++].id,
                  .bytes = part.bytes,
                  .immediate = part.immediate,
                  .by = Completion::By::write});
}

void TcpResponder::advance_arriving() noexcept {
  for (Arriving& part : arriving_) {
    if (part.piece == nullptr) continue;
    const auto done = part.poll();
    if (done && !*done) continue;
    part.failed = !done;
    let_go_of(part);
  }
  while (!arriving_.empty() && arriving_.front().piece == nullptr) {
    const Arriving part = std::move(arriving_.front());
    arriving_.pop_front();
    if (part.failed) {
      reject({.kind = Frame::Kind::write, .number = part.number},
             make_error(Errc::system, Stage::copy, "the device's engine failed"));
    } else if (part.last) {
      end_write(part);
    }
  }
}

/// Waits for the engine if it is still copying.
void TcpResponder::let_go_of(Arriving& part) noexcept {
  part.hold.reset();
  part.copy = PendingCopy();
  part.memory.reset();
  link_.user.give_back(std::exchange(part.piece, nullptr));
  end_engine();
}

void TcpResponder::end_engine() noexcept {
  link_.user.end_engine();
  if (!link_.data_open) link_.user.look_soon();
}

void TcpResponder::break_off() noexcept {
  asked_.clear();
  advance_answers();
}

void TcpResponder::flush() noexcept {
  for (; !receives_.empty(); ++receives_.first) link_.flush(receives_[receives_.first].id);
}

void TcpResponder::end() noexcept {
  for (Arriving& part : arriving_) {
    if (part.piece != nullptr) let_go_of(part);
  }
  arriving_.clear();
  for (Answer& answer : answers_) let_go_of(answer);
  answers_.clear();
  if (piece_ != nullptr) link_.user.give_back(std::exchange(piece_, nullptr));
  receives_.first = receives_.end;
}

/// Refuses a request. No later request is executed either.
void TcpResponder::reject(const Frame& frame, const Error& why) noexcept {
  if (!link_.data_open || std::exchange(rejecting_, true)) return;
  const bool is_gone = why.hint == Hint::memory_gone;
  const Frame::Status status = why.code == Errc::permission_denied ? Frame::Status::denied
                               : why.code == Errc::invalid_argument && !is_gone
                                   ? Frame::Status::outside
                                   : Frame::Status::broken;
  if (is_gone) {
    log_line(LogLevel::warn, [&] { return "a request of the peer's fails: " + describe(why); });
  }
  refusal_ = Frame{.kind = Frame::Kind::failed, .status = status, .number = frame.number};
}

// --- requests that need an answer

template <class Part>
bool TcpResponder::keep(std::deque<Part>& parts, Part& what) noexcept {
  const auto kept = guarded(Stage::complete, [&]() -> Result<void> {
    parts.push_back(std::move(what));
    return {};
  });
  if (!kept) link_.fail(kept.error());
  return kept.has_value();
}

void TcpResponder::on_read(const Frame& frame) noexcept {
  if (asked_.size() >= kMostAsked)
    return link_.break_protocol("the peer asks for more than it may");
  Asked asked{frame.number, frame.address, frame.key, frame.value};
  keep(asked_, asked);
}

void TcpResponder::on_atomic(const Frame& frame) noexcept {
  if (answers_.size() >= kMostAsked)
    return link_.break_protocol("the peer asks for more than it may");
  const auto value = carry_out(frame);
  if (!value) return reject(frame, value.error());
  Answer answer;
  answer.number = frame.number;
  answer.length = sizeof *value;
  answer.value = *value;
  keep(answers_, answer);
}

/// Executes an atomic with this CPU. It is atomic with respect to threads of this and other
/// processes, but not to a NIC's atomics.
Result<std::uint64_t> TcpResponder::carry_out(const Frame& frame) const {
  Frame word = frame;
  word.length = sizeof(std::uint64_t);
  HBMWIRE_TRY_ASSIGN(const Target target, target_of(word, Access::remote_atomic));
  if (target.memory == nullptr || frame.address % sizeof(std::uint64_t) != 0) {
    return tl::make_unexpected(make_error(
        Errc::invalid_argument, Stage::complete,
        "an atomic is of 8 bytes of host memory, at a multiple of 8", link_.user.peer()));
  }
  // No system call executes an atomic of 64 bits. If another thread unmaps the memory between this
  // check and the atomic, the process is ended by a signal: this is the only such fault that is not
  // caught.
  if (!can_write(target.memory))
    return tl::make_unexpected(memory_gone(Stage::complete, link_.user.peer()));
  const std::atomic_ref<std::uint64_t> at(
      *std::bit_cast<std::uint64_t*>(static_cast<void*>(target.memory)));
  if (frame.kind == Frame::Kind::fetch_add) return at.fetch_add(operands_.compare_or_add);
  std::uint64_t was = operands_.compare_or_add;
  at.compare_exchange_strong(was, operands_.swap);
  return was;
}

/// Begins the next part of an answer. Returns false if there is none, or if it cannot be begun now.
bool TcpResponder::begin_answer() noexcept {
  if (asked_.empty() || !link_.data_open || rejecting_ || link_.broken) return false;
  Asked& asked = asked_.front();
  // Earlier writes must have arrived first.
  if (!arriving_.empty() && is_before(arriving_.front().number, asked.number)) return false;
  Answer answer;
  answer.number = asked.number;
  answer.length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(asked.length, wire::kMaxTcpPayload));
  answer.last = answer.length == asked.length;
  Frame part{.kind = Frame::Kind::read, .number = asked.number};
  part.length = answer.length;
  part.address = asked.address;
  part.key = asked.key;
  auto target = target_of(part, Access::remote_read);
  answer.piece =
      link_.user.take_piece(target && target->device ? &target->device->domain() : nullptr);
  if (answer.piece == nullptr) return false;
  if (target && target->device) {
    auto copy =
        target->device->domain().start_copy_out(target->address, {answer.piece, answer.length});
    if (copy) {
      target->hold->watch(std::move(*copy));
      answer.hold.emplace(std::move(*target->hold));
      link_.user.begin_engine();
    } else {
      target = tl::make_unexpected(copy.error());
    }
  } else if (target && !copy_from_application({answer.piece, answer.length}, target->memory)) {
    target = tl::make_unexpected(memory_gone(Stage::complete, link_.user.peer()));
  }
  if (!target) {
    link_.user.give_back(answer.piece);
    reject(part, target.error());
    asked_.clear();
    return false;
  }
  if (!keep(answers_, answer)) {
    let_go_of(answer);
    return false;
  }
  asked.address += part.length;
  asked.length -= part.length;
  if (asked.length == 0) asked_.pop_front();
  return true;
}

void TcpResponder::advance_answers() noexcept {
  for (Answer& answer : answers_) {
    if (!answer.hold) continue;
    const auto done = answer.hold->poll();
    if (done && !*done) continue;
    answer.hold.reset();
    end_engine();
    answer.failed = !done;
    if (!done) reject({.kind = Frame::Kind::read, .number = answer.number}, done.error());
  }
  // Nothing is sent any more, so all parts that no engine uses can go.
  if (link_.data_open) return;
  while (!answers_.empty() && !answers_.front().hold) {
    let_go_of(answers_.front());
    answers_.pop_front();
  }
}

void TcpResponder::let_go_of(Answer& answer) noexcept {
  if (answer.hold) {
    answer.hold.reset();  // waits for the engine
    end_engine();
  }
  if (answer.piece == nullptr) return;
  link_.user.give_back(std::exchange(answer.piece, nullptr));
  link_.user.note_event();  // another endpoint may be waiting for a piece
}

}  // namespace hbmwire::transport
