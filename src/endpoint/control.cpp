// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "connect/advertised.hpp"
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
  return verbs::from_errno_result(ibv_post_recv(lane.queue, &request, &bad), Stage::post,
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
  const auto kept = guarded(Stage::complete, [&]() -> Result<void> {
    to_say.push_back(wire::encode(message));
    return {};
  });
  if (!kept) {
    // The peer may still be told of the end, if of nothing else.
    if (phase == EndpointPhase::ready) return fail(kept.error(), nullptr);
    // A NIC would say it by its queue pair in ERROR; a socket that stays open says nothing.
    if (link != nullptr) link->hang_up();
    return lose_control(kept.error());
  }
  say_waiting();
}

void EndpointState::say_waiting() noexcept {
  while (!to_say.empty() && !free_answer_buffers.empty() && !control_dead) {
    MessageBuffer& buffer = *free_answer_buffers.back();
    const std::vector<std::byte>& bytes = to_say.front();
    std::ranges::copy(bytes, buffer.bytes);
    ibv_sge element{.addr = reinterpret_cast<std::uint64_t>(buffer.bytes),
                    .length = static_cast<std::uint32_t>(bytes.size()),
                    .lkey = buffer.local_key};
    ibv_send_wr request{};
    request.wr_id = transport::to_id(&buffer, transport::Tag::control);
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
  ++worker->event_count;
  worker->look_soon();
  // Who has said goodbye closes its lanes. What is under way here fails by itself, or does not.
  if (!peer_left) fail(why, nullptr);
  if (phase == EndpointPhase::ending) go_on_ending(worker->now);
}

void EndpointState::on_answered(MessageBuffer& buffer, const ibv_wc& completion) noexcept {
  --control_posted;
  free_answer_buffers.push_back(&buffer);
  if (completion.status != IBV_WC_SUCCESS) {
    if (probes_in_vain()) return;
    if (!control_dead) lose_control(verbs::completion_error(completion, peer));
    return;
  }
  if (abandoned) worker->look_soon();
  say_waiting();
}

// NOLINTNEXTLINE(bugprone-exception-escape): what was decoded holds a message.
void EndpointState::on_control(MessageBuffer& buffer, const ibv_wc& completion) noexcept {
  --control_posted;
  if (completion.status != IBV_WC_SUCCESS) {
    if (probes_in_vain()) return;
    if (control_dead) return;
    const bool too_long = completion.status == IBV_WC_LOC_LEN_ERR;
    lose_control(too_long ? broken_protocol("the peer's control message is too long")
                          : verbs::completion_error(completion, peer));
    return;
  }
  // Decoding a message, and doing what it asks for, may allocate.
  const auto taken = guarded(Stage::complete, [&]() -> Result<void> {
    const auto message = wire::decode_control({buffer.bytes, completion.byte_len});
    if (!message) return tl::make_unexpected(broken_protocol(message.error().call));
    std::visit([&](const auto& kind) { on(kind); }, *message);
    return {};
  });
  if (!taken && taken.error().code == Errc::exhausted && phase == EndpointPhase::ready) {
    fail(taken.error(), nullptr);  // which the peer is told of
  } else if (!taken) {
    lose_control(taken.error());
  }
  if (closing_lanes || control_dead) return;
  if (const auto posted =
          post_receive(*control_lane, buffer, wire::kMaxControlBytes, transport::Tag::control)) {
    ++control_posted;
  } else {
    lose_control(posted.error());
  }
}

void EndpointState::on(const wire::Fence& /*message*/) noexcept {
  // The peer has closed its own lane before it said so.
  peer_fenced = true;
  must_answer = true;
  fail(make_error(Errc::peer_failed, Stage::complete, "the peer broke the connection off", peer,
                  Hint::peer_broke_off),
       nullptr);
  if (phase == EndpointPhase::ending) {
    go_on_ending(worker->now);
  } else if (close_data() && std::exchange(must_answer, false)) {
    // It had ended before; nothing of the application's is under way.
    say(wire::Fenced{});
  }
}

void EndpointState::on(const wire::Fenced& /*message*/) noexcept {
  peer_fenced = true;
  peer_quiet = true;
  if (phase == EndpointPhase::ending) go_on_ending(worker->now);
}

void EndpointState::on(const wire::RailDown& message) noexcept {
  if (!rails || !rails->on_down(message.rail))
    lose_control(broken_protocol("the peer ends a rail that there is not"));
}

void EndpointState::on(const wire::RailClosed& message) noexcept {
  if (rails) rails->on_closed(message.rail);
}

void EndpointState::on(const wire::Farewell& /*message*/) noexcept {
  peer_left = true;
  ++worker->event_count;
  worker->look_soon();
  if (phase != EndpointPhase::ready) return;
  if (mail.under_way() || asks_for_ipc() || pieces.awaited()) {
    // Nobody will answer.
    fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye", peer,
                    Hint::peer_gone),
         nullptr);
  } else if (!is_busy()) {
    enter_closed();
  }
}

Error EndpointState::broken_protocol(const char* why) const noexcept {
  return make_error(Errc::protocol, Stage::complete, why, peer, Hint::other_version);
}

void EndpointState::on(const wire::LookUp& message) {
  // An end asks one thing at a time; answers that are not taken must not pile up here.
  if (to_say.size() >= kControlBuffers) {
    lose_control(broken_protocol("the peer asks for more than it takes answers"));
    return;
  }
  wire::Found answer{message.id, {}};
  if (advertised) answer.key = advertised->key_of(message.name);
  say(answer);
}

void EndpointState::on(const wire::Found& message) {
  for (Question* const question : questions) {
    if (question->id != message.id) continue;
    question->answer = message;
    ++worker->event_count;
  }
}

Result<RemoteRegion> EndpointState::look_up(std::string_view name, const Wait& wait) {
  if (phase != EndpointPhase::ready) return tl::make_unexpected(not_ready());
  if (name.empty() || name.size() > wire::kMaxRegionName) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "a region's name has 1 to 255 bytes", name));
  }
  HBMWIRE_TRY(worker->check_process(Stage::connect));
  Question question{++next_look_up, {}};
  const wire::LookUp asks{question.id, std::string(name)};
  questions.push_back(&question);
  say(asks);
  const auto asked =
      worker->drive(wait, [&] { return question.answer || phase != EndpointPhase::ready; });
  std::erase(questions, &question);
  const auto& found = question.answer;
  if (!found && !asked) return tl::make_unexpected(asked.error());
  if (!found) return tl::make_unexpected(not_ready());
  if (found->key.empty()) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                          "the peer advertises no memory of that name", name,
                                          Hint::region_name));
  }
  HBMWIRE_TRY_ASSIGN(const RemoteKey key, RemoteKey::unpack(found->key));
  return resolve(key);
}

/// By its token, with which the peer's process itself finds it.
Result<RemoteRegion> EndpointState::resolve_over_tcp(const RemoteKey& key) const {
  HBMWIRE_TRY(key.check(*remote));
  const MemoryKeyInfo& info = key.info();
  // Where no engine of this process copies it, it goes by TCP as everything else does.
  return RemoteRegion{.address = info.address,
                      .length_bytes = info.length_bytes,
                      .connection = in_process(info) || may_share(info.type, Path::tcp)
                                        ? number | kByEngine
                                        : number,
                      .access = info.access,
                      .type = info.type,
                      .path = Path::tcp,
                      .remote_key = link->key_of(info.token),
                      .token = info.token};
}

namespace {

const char* excluded(Path path) noexcept {
  switch (path) {
    case Path::staged:
      return "the path policy excludes staging, which this memory needs, since no NIC of the peer "
             "reaches it; the peer's log says why";
    case Path::peer_memory:
      return "the path policy excludes peer memory, by which the peer's NIC reaches this memory; "
             "the peer's log says why";
    case Path::zero_copy:
      return "the path policy excludes zero-copy, by which the peer's NIC reaches this memory";
    default:
      return "the path policy excludes host, by which the peer's NIC reaches this memory";
  }
}

}  // namespace

Result<RemoteRegion> EndpointState::resolve(const RemoteKey& key) const {
  if (!remote) return tl::make_unexpected(not_ready());
  if (link != nullptr) return resolve_over_tcp(key);
  if (auto region = in_process(key.info())) {
    // Where no engine copies it, the NIC does, if it reaches it.
    const auto memory = key.on(*remote);
    if (memory) region->remote_key = memory->remote_key;
    if (!memory && memory.error().code != Errc::not_found)
      return tl::make_unexpected(memory.error());
    if (!memory) region->path = Path::staged;
    return *region;
  }
  const bool staged = key.info().path == Path::staged;
  RemoteMemory memory{key.info().address, key.info().length_bytes, 0};
  if (staged) {
    HBMWIRE_TRY(key.check(*remote));
  } else {
    HBMWIRE_TRY_ASSIGN(memory, key.on(*remote));
  }
  const bool shared = may_share(key.info().type, key.info().path);
  if (!has_path(admitted_paths, key.info().path) && !shared) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::connect,
                                          excluded(key.info().path), peer, Hint::path_policy));
  }
  RemoteRegion region{.address = memory.address,
                      .length_bytes = memory.length_bytes,
                      // No NIC's, or an engine's: the data path knows it by that.
                      .connection = shared   ? number | kByEngine
                                    : staged ? ~number
                                             : number,
                      .access = key.info().access,
                      .type = key.info().type,
                      .path = key.info().path,
                      .remote_key = memory.remote_key,
                      .token = key.info().token};
  if (rails && !staged) rails->set_keys(region, key);
  return region;
}

}  // namespace hbmwire::detail
