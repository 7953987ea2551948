// SPDX-License-Identifier: MIT
#include "endpoint/control_lane.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/control_messages.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

void ControlLane::set_memory(std::byte* memory, std::uint32_t local_key) {
  free_.reserve(kBuffers);
  for (ControlBuffer& buffer : outgoing_) {
    buffer = {this, memory, local_key};
    memory += wire::kMaxControlBytes;
    free_.push_back(&buffer);
  }
}

Result<void> ControlLane::make_receives(ReceivePool* pool, const WorkerNic& nic) {
  if (pool != nullptr) {
    HBMWIRE_TRY(receives_.join(*pool, kBuffers));
    receives_.set_lane(*lane_, *this);
    return {};
  }
  return receives_.make_own(endpoint_.worker->context, nic, *lane_, *this, wire::kMaxControlBytes,
                            kOwnReceives);
}

void ControlLane::say(const wire::ControlMessage& message) noexcept {
  if (dead_) return;
  const auto kept = guarded(Stage::complete, [&]() -> Result<void> {
    say_bytes(wire::encode(message));
    return {};
  });
  if (kept) return;
  // If the message is lost, the peer may at least still be told of the end.
  if (endpoint_.phase == EndpointPhase::ready) return endpoint_.fail(kept.error(), nullptr);
  // A peer by a NIC would notice a queue pair in ERROR. A socket that stays open tells it nothing.
  if (endpoint_.link != nullptr) endpoint_.link->hang_up();
  lose(kept.error());
}

void ControlLane::say_bytes(std::vector<std::byte> bytes) {
  to_say_.push_back(std::move(bytes));
  say_waiting();
}

void ControlLane::say_waiting() noexcept {
  while (!to_say_.empty() && !free_.empty() && !dead_) {
    const std::vector<std::byte>& bytes = to_say_.front();
    ControlBuffer& buffer = *free_.back();
    std::ranges::copy(bytes, buffer.bytes);
    const int result = post(reinterpret_cast<std::uint64_t>(buffer.bytes),
                            static_cast<std::uint32_t>(bytes.size()), buffer.local_key);
    if (result != 0) return lose(endpoint_.post_error(result));
    to_say_.pop_front();
  }
}

int ControlLane::post(std::uint64_t address, std::uint32_t length_bytes,
                      std::uint32_t local_key) noexcept {
  const transport::Message message{.header = {address, length_bytes, local_key}};
  const int result = lane_->post(message, transport::to_id(free_.back(), transport::Tag::control));
  if (result != 0) return result;
  free_.pop_back();
  ++sending_;
  // A peer that polls looks at its sockets seldom, so its ring tells it of the message.
  if (endpoint_.link != nullptr && !endpoint_.paths.by_tcp()) endpoint_.movers.ring.tell_of_word();
  return 0;
}

void ControlLane::lose(const Error& why) noexcept {
  silence();
  endpoint_.note_event();
  endpoint_.on_control_lost(why);
}

void ControlLane::silence() noexcept {
  dead_ = true;
  to_say_.clear();
}

void ControlLane::on_sent(ControlBuffer& buffer, const transport::Completion& completion) noexcept {
  --sending_;
  free_.push_back(&buffer);
  if (!completion.good()) {
    endpoint_.look_soon();  // the last request may just have come back
    if (note_failed_probe() || dead_) return;
    return lose(transport::completion_error(completion, endpoint_.peer));
  }
  endpoint_.on_said();
  say_waiting();
}

void ControlLane::on_received(ReceiveBuffer& buffer,
                              const transport::Completion& completion) noexcept {
  take(buffer, completion);
  if (!is_open()) endpoint_.look_soon();
  // A lane in ERROR gives its own receives back at once. Shared receives are posted again for the
  // other lanes.
  if (!is_open() && !receives_.are_shared()) return;
  if (probe_ != nullptr && probe_->failed && !receives_.are_shared()) return receives_.hold(buffer);
  if (const int result = receives_.post(buffer); result != 0)
    lose(system_error(Stage::post, "ibv_post_recv", result, endpoint_.nic->info.name));
}

// NOLINTNEXTLINE(bugprone-exception-escape): a decoded variant always holds a message.
void ControlLane::take(const ReceiveBuffer& buffer,
                       const transport::Completion& completion) noexcept {
  if (!completion.good()) {
    endpoint_.look_soon();
    if (note_failed_probe() || dead_) return;
    const bool too_long = completion.status == transport::CompletionStatus::length;
    return lose(too_long ? endpoint_.broken_protocol("the peer's control message is too long")
                         : transport::completion_error(completion, endpoint_.peer));
  }
  // Decoding a message, and acting on it, may allocate.
  const auto taken = guarded(Stage::complete, [&]() -> Result<void> {
    const auto message = wire::decode_control({buffer.bytes, completion.bytes});
    if (!message) return tl::make_unexpected(endpoint_.broken_protocol(message.error().call));
    take_control_message(endpoint_, *message);
    return {};
  });
  const bool exhausted = !taken && taken.error().code == Errc::exhausted;
  if (exhausted && endpoint_.phase == EndpointPhase::ready) {
    endpoint_.fail(taken.error(), nullptr);  // tells the peer
  } else if (!taken) {
    lose(taken.error());
  }
}

void ControlLane::close() noexcept {
  const auto closed = lane_->to_error();
  if (!closed) log_line(LogLevel::warn, [&] { return describe(closed.error()); });
  closing_ = closed.has_value();
}

void ControlLane::cut() noexcept {
  silence();
  lane_->cut();
}

// --- finding the peer of an invitation

void ControlLane::probe(const wire::Hails& hails) {
  probe_ = std::make_unique<Probe>(Probe{hails});
}

bool ControlLane::note_failed_probe() noexcept {
  if (!probe_ || probe_->heard) return false;
  probe_->failed = true;
  return true;
}

void ControlLane::on_probe(const wire::Probe& message) noexcept {
  if (probe_ && !probe_->heard && wire::equal(message.proof, probe_->hails.theirs)) {
    probe_->heard = true;
    endpoint_.look_soon();
    return;
  }
  lose(make_error(Errc::permission_denied, Stage::connect,
                  "another end than the invited peer probes this end", endpoint_.peer,
                  Hint::invitation));
}

void ControlLane::advance_probe() noexcept {
  if (probe_->failed && is_drained()) {
    probe_->failed = false;
    probe_->said = false;
    if (const auto again = wire_again(); !again) return lose(again.error());
  }
  if (!probe_->said && !probe_->failed && (probe_->hails.first || probe_->heard)) {
    probe_->said = true;
    say(wire::Probe{probe_->hails.own});
  }
  // From here on a failure of the lane means that the peer failed.
  if (probe_->heard && probe_->said) probe_.reset();
}

Result<void> ControlLane::wire_again() {
  HBMWIRE_TRY(lane_->restart());
  HBMWIRE_TRY(receives_.post_held());
  return lane_->connect_again();
}

}  // namespace hbmwire::detail
