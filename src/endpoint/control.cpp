// SPDX-License-Identifier: MIT
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "endpoint/advertised.hpp"
#include "endpoint/endpoint_state.hpp"
#include "verbs/calls.hpp"

namespace hbmwire::detail {

Result<void> EndpointState::post_receive(transport::Lane& lane, MessageBuffer& buffer,
                                         std::uint64_t bytes, transport::Tag tag) const {
  ibv_sge element{.addr = reinterpret_cast<std::uint64_t>(buffer.bytes),
                  .length = static_cast<std::uint32_t>(bytes),
                  .lkey = buffer.local_key};
  ibv_recv_wr request{};
  request.wr_id = transport::to_id(&buffer, tag);
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return verbs::from_errno_result(ibv_post_recv(lane.qp.get(), &request, &bad), Stage::post,
                                  "ibv_post_recv", nic->info.name);
}

Result<void> EndpointState::post_control_receives() {
  for (MessageBuffer& buffer : control_buffers) {
    HBMWIRE_TRY(
        post_receive(*control_lane, buffer, wire::kMaxControlBytes, transport::Tag::control));
    ++control_posted;
  }
  return {};
}

void EndpointState::say(const wire::ControlMessage& message) noexcept {
  if (control_dead) return;
  to_say.push_back(wire::encode(message));
  say_waiting();
}

void EndpointState::say_waiting() noexcept {
  while (!to_say.empty() && !free_answer_buffers.empty() && !control_dead) {
    MessageBuffer& buffer = *free_answer_buffers.back();
    const std::vector<std::byte>& bytes = to_say.front();
    std::memcpy(buffer.bytes, bytes.data(), bytes.size());
    ibv_sge element{.addr = reinterpret_cast<std::uint64_t>(buffer.bytes),
                    .length = static_cast<std::uint32_t>(bytes.size()),
                    .lkey = buffer.local_key};
    ibv_send_wr request{};
    request.wr_id = transport::to_id(&buffer, transport::Tag::answered);
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    if (const int result = transport::post_one(*control_lane, request); result != 0) {
      lose_control(system_error(Stage::post, "ibv_post_send", result, nic->info.name));
      return;
    }
    free_answer_buffers.pop_back();
    to_say.pop_front();
    ++control_posted;
  }
}

void EndpointState::lose_control(const Error& why) noexcept {
  control_dead = true;
  to_say.clear();
  if (peer_left) return;
  fail(why, nullptr);
  if (phase == EndpointPhase::ending) go_on_ending(worker->now);
}

void EndpointState::on_answered(MessageBuffer& buffer, const ibv_wc& completion) noexcept {
  --control_posted;
  free_answer_buffers.push_back(&buffer);
  if (completion.status != IBV_WC_SUCCESS) {
    if (!control_dead) lose_control(verbs::completion_error(completion, peer));
    return;
  }
  say_waiting();
}

void EndpointState::on_control(MessageBuffer& buffer, const ibv_wc& completion) noexcept {
  --control_posted;
  if (completion.status != IBV_WC_SUCCESS) {
    if (!control_dead) lose_control(verbs::completion_error(completion, peer));
    return;
  }
  const auto message = wire::decode_control({buffer.bytes, completion.byte_len});
  if (!message) {
    lose_control(message.error());
    return;
  }
  std::visit([&](const auto& kind) { on(kind); }, *message);
  if (closing_lanes || control_dead) return;
  if (const auto posted =
          post_receive(*control_lane, buffer, wire::kMaxControlBytes, transport::Tag::control)) {
    ++control_posted;
  } else {
    lose_control(posted.error());
  }
}

void EndpointState::on(const wire::Hail& /*message*/) noexcept { hailed = true; }

void EndpointState::on(const wire::Fence& /*message*/) noexcept {
  // The peer has closed its own lane before it said so.
  peer_fenced = true;
  must_answer = true;
  fail(make_error(Errc::peer_failed, Stage::complete, "the peer broke the connection off", peer,
                  Hint::peer_broke_off),
       nullptr);
  if (phase == EndpointPhase::ending) {
    go_on_ending(worker->now);
  } else if (std::exchange(must_answer, false)) {
    say(wire::Fenced{});
  }
}

void EndpointState::on(const wire::Fenced& /*message*/) noexcept {
  peer_fenced = true;
  if (phase == EndpointPhase::ending) go_on_ending(worker->now);
}

void EndpointState::on(const wire::Farewell& /*message*/) noexcept {
  peer_left = true;
  if (phase == EndpointPhase::ready && outstanding == 0 && first_waiting == nullptr)
    phase = EndpointPhase::closed;
}

void EndpointState::on(const wire::LookUp& message) noexcept {
  wire::Found answer{message.id, {}};
  if (advertised) answer.key = advertised->key_of(message.name);
  say(answer);
}

void EndpointState::on(const wire::Found& message) noexcept {
  if (message.id == next_look_up) found = message;
}

Result<RemoteRegion> EndpointState::look_up(std::string_view name, const Wait& wait) {
  if (phase != EndpointPhase::ready) return tl::make_unexpected(not_ready());
  if (name.empty() || name.size() > wire::kMaxRegionName) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "a region's name has 1 to 255 bytes", name));
  }
  found.reset();
  say(wire::LookUp{++next_look_up, std::string(name)});
  HBMWIRE_TRY(worker->drive(wait, [&] { return found || phase != EndpointPhase::ready; }));
  if (!found) return tl::make_unexpected(not_ready());
  if (found->key.empty()) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                          "the peer advertises no memory of that name", name,
                                          Hint::region_name));
  }
  HBMWIRE_TRY_ASSIGN(const RemoteKey key, RemoteKey::unpack(found->key));
  return resolve(key);
}

Result<RemoteRegion> EndpointState::resolve(const RemoteKey& key) const {
  if (!remote) return tl::make_unexpected(not_ready());
  HBMWIRE_TRY_ASSIGN(const RemoteMemory memory, key.on(*remote));
  return RemoteRegion{.address = memory.address,
                      .length_bytes = memory.length_bytes,
                      .remote_key = memory.remote_key,
                      .connection = number,
                      .access = key.info().access,
                      .type = key.info().type};
}

}  // namespace hbmwire::detail
