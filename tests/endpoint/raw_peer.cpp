// SPDX-License-Identifier: MIT
#include "raw_peer.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <variant>

#include "registration/region_state.hpp"
#include "transport/verbs/lane_datapath.hpp"
#include "wire/dial.hpp"
#include "wire/handshake.hpp"

namespace hbmwire::test {

namespace {

constexpr std::uint32_t kControlDepth = 8;

// The contents of ibv_wc::wr_id: the kind of completion, and the place of a receive.
constexpr std::uint64_t kSent = 0;
constexpr std::uint64_t kMessage = 1ULL << 32U;
constexpr std::uint64_t kControl = 2ULL << 32U;

}  // namespace

RawPeer::RawPeer(const Context& context, Worker& serving, std::uint16_t port,
                 const std::function<void(wire::EndpointOffer&)>& alter_offer)
    : memory(context, MemoryType::host, kPlace * kDepth),
      serving_(serving),
      nic_(value(context.open_nics()).front()),
      inbox_(context, MemoryType::host, kPlace * (kDepth + kControlDepth)),
      completions_(value(transport::VerbsCompletionQueue::create(state_of(nic_).shared_from_this(),
                                                                 nullptr, 4 * kDepth))),
      data_(value(transport::VerbsLane::create(nic_, *completions_,
                                               {.send_depth = kDepth, .receive_depth = kDepth}))),
      control_(value(transport::VerbsLane::create(
          nic_, *completions_, {.send_depth = kDepth, .receive_depth = kControlDepth}))) {
  for (std::uint64_t i = 0; i < kDepth; ++i) receive(*data_, i);
  for (std::uint64_t i = 0; i < kControlDepth; ++i) receive(*control_, kDepth + i);
  shake_hands(port, alter_offer);
}

void RawPeer::shake_hands(std::uint16_t port,
                          const std::function<void(wire::EndpointOffer&)>& alter_offer) {
  using Step = wire::Handshake::Step;
  auto handshake =
      value(wire::Handshake::create(wire::Handshake::Side::connecting, "the victim", {}));
  wire::EndpointOffer own{.data = data_->local(),
                          .control = control_->local(),
                          .reads_in = 16,
                          .receive_depth = kDepth / 2,
                          .places = kDepth / 2,
                          .eager_bytes = 8192};
  if (alter_offer) alter_offer(own);
  handshake.offer(own);
  socket_ = value(wire::dial("127.0.0.1", port, "the victim", within(10s)));
  const Deadline deadline = Deadline::after(10s);
  while (handshake.step() != Step::done && !deadline.passed()) {
    serving_.progress();
    if (const auto out = handshake.to_send(); !out.empty()) {
      const ssize_t sent = ::send(socket_.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (sent > 0) handshake.sent(static_cast<std::size_t>(sent));
    }
    if (handshake.step() == Step::has_offer) {
      theirs = handshake.theirs();
      verbs::Wiring wiring;
      wiring.reads_in = 16;
      wiring.ack_timeout = 8;
      wiring.receiver_retries = 7;
      wiring.local = control_->local();
      wiring.remote = theirs.control;
      good(control_->connect(wiring));
      wiring.local = data_->local();
      wiring.remote = theirs.data;
      good(data_->connect(wiring));
      handshake.confirm();
    }
    std::array<std::byte, 512> bytes;
    const std::size_t most = std::min(handshake.wanted(), bytes.size());
    if (most == 0) continue;
    const ssize_t got = ::recv(socket_.get(), bytes.data(), most, MSG_DONTWAIT);
    if (got > 0) handshake.take(std::span(bytes).first(static_cast<std::size_t>(got)));
  }
  EXPECT_EQ(handshake.step(), Step::done);
}

std::byte* RawPeer::bytes_at(std::uint64_t at) const {
  return std::bit_cast<std::byte*>(memory.region().address() + at);
}

std::uint64_t RawPeer::next_place() {
  const Deadline deadline = Deadline::after(10s);
  // A place is used again after kDepth further ones, when its request has long completed.
  while (posted_ >= kDepth / 2 && !broken_ && !deadline.passed()) {
    progress();
    serving_.progress();
  }
  return places_++ % kDepth * kPlace;
}

void RawPeer::post(transport::VerbsLane& lane, ibv_send_wr request, std::uint64_t at,
                   std::uint32_t length) {
  ibv_sge element{.addr = memory.region().address() + at,
                  .length = length,
                  .lkey = *state_of(memory.region()).local_key(state_of(nic_))};
  request.wr_id = kSent;
  request.sg_list = &element;
  request.num_sge = length == 0 ? 0 : 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(lane.queue_pair(), &request, &bad) == 0) {
    ++posted_;
  } else {
    broken_ = true;
  }
}

void RawPeer::say_bytes(std::span<const std::byte> bytes, ibv_wr_opcode opcode) {
  const std::uint64_t at = next_place();
  std::ranges::copy(bytes, bytes_at(at));
  ibv_send_wr request{};
  request.opcode = opcode;
  post(*data_, request, at, static_cast<std::uint32_t>(bytes.size()));
}

void RawPeer::say(const wire::MessageHeader& header, std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(wire::kMessageHeaderBytes);
  wire::encode(header, bytes.data());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  say_bytes(bytes);
}

void RawPeer::say_immediate(std::uint32_t value) {
  const std::uint64_t at = next_place();
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(value);
  post(*data_, request, at, 0);
}

void RawPeer::reach(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t remote_key,
                    std::uint32_t length) {
  const std::uint64_t at = next_place();
  ibv_send_wr request{};
  request.opcode = opcode;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = remote_key;
  post(*data_, request, at, length);
}

void RawPeer::say_control(const wire::ControlMessage& message) {
  const std::vector<std::byte> bytes = wire::encode(message);
  const std::uint64_t at = next_place();
  std::ranges::copy(bytes, bytes_at(at));
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  post(*control_, request, at, static_cast<std::uint32_t>(bytes.size()));
}

void RawPeer::receive(transport::VerbsLane& lane, std::uint64_t place) {
  ibv_sge element{.addr = inbox_.region().address() + place * kPlace,
                  .length = kPlace,
                  .lkey = *state_of(inbox_.region()).local_key(state_of(nic_))};
  ibv_recv_wr request{};
  request.wr_id = (place < kDepth ? kMessage : kControl) | place;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(lane.queue_pair(), &request, &bad), 0);
}

void RawPeer::progress() {
  std::array<ibv_wc, 16> completions;
  const int count =
      ibv_poll_cq(completions_->get(), static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < count; ++i) take(completions[static_cast<std::size_t>(i)]);
}

void RawPeer::take(const ibv_wc& completion) {
  const bool failed = completion.status != IBV_WC_SUCCESS;
  if ((completion.wr_id & (kMessage | kControl)) == 0) {
    --posted_;
    if (failed && !broken_) last_failure_ = completion.status;
    broken_ = broken_ || failed;
    return;
  }
  if (failed) return;
  const std::uint64_t place = completion.wr_id & 0xffffffffU;
  const auto* const bytes =
      std::bit_cast<const std::byte*>(inbox_.region().address() + place * kPlace);
  if ((completion.wr_id & kControl) != 0) {
    take_control({bytes, completion.byte_len});
    receive(*control_, place);
    return;
  }
  if (completion.opcode == IBV_WC_RECV) {
    const auto header = wire::decode_header({bytes, completion.byte_len});
    EXPECT_TRUE(header) << "the victim sent no valid message";
    if (header) heard.push_back(*header);
  }
  if (takes_messages) receive(*data_, place);
}

void RawPeer::take_control(std::span<const std::byte> bytes) {
  const auto message = wire::decode_control(bytes);
  ASSERT_TRUE(message);
  if (!answers_fences || !std::holds_alternative<wire::Fence>(*message)) return;
  // The answer is a lie, because no lane was closed.
  say_control(wire::Fenced{});
}

wire::MessageHeader RawPeer::expect(wire::MessageHeader::Kind kind) {
  const Deadline deadline = Deadline::after(10s);
  while (!deadline.passed()) {
    const auto found = std::ranges::find(heard, kind, &wire::MessageHeader::kind);
    if (found != heard.end()) {
      const wire::MessageHeader header = *found;
      heard.erase(found);
      return header;
    }
    serving_.progress();
    progress();
  }
  ADD_FAILURE() << "the victim does not say " << static_cast<int>(kind);
  return {};
}

}  // namespace hbmwire::test
