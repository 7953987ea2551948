// SPDX-License-Identifier: MIT
#include "lane_pairs.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <bit>
#include <optional>
#include <utility>

#include "ends.hpp"
#include "registration/exports.hpp"
#include "registration/region_state.hpp"
#include "transport/tcp/link.hpp"
#include "transport/verbs/lane.hpp"
#include "wire/tcp_frame.hpp"

namespace hbmwire::test {

namespace {

std::span<std::byte> bytes_of(const Region& region) {
  return {std::bit_cast<std::byte*>(region.address()), region.size_bytes()};
}

class NicLanes final : public LanePair {
 public:
  NicLanes() {
    near_lane_ = make_lane(near_queue_);
    far_lane_ = make_lane(far_queue_);
    wire(*near_lane_, *far_lane_);
    wire(*far_lane_, *near_lane_);
    near = std::move(near_lane_);
    far = std::move(far_lane_);
  }

  // The lanes are the base's members, and use this class' queues.
  ~NicLanes() override {
    near.reset();
    far.reset();
  }

  [[nodiscard]] transport::CompletionQueue& near_queue() override { return *near_queue_; }

  [[nodiscard]] transport::CompletionQueue& far_queue() override { return *far_queue_; }

  [[nodiscard]] std::span<std::byte> near_bytes() override { return bytes_of(near_.region()); }

  [[nodiscard]] std::span<std::byte> far_bytes() override { return bytes_of(far_.region()); }

  [[nodiscard]] std::uint32_t near_key() override {
    return *state_of(near_.region()).local_key(state_of(nic_));
  }

  [[nodiscard]] std::uint32_t far_key() override {
    return *state_of(far_.region()).local_key(state_of(nic_));
  }

  [[nodiscard]] std::uint32_t remote_key() override {
    return state_of(far_.region()).with(state_of(nic_))->mr.get()->rkey;
  }

  void tear_down(bool far_first) override {
    auto& first = far_first ? far : near;
    auto& second = far_first ? near : far;
    first.reset();
    (far_first ? far_queue_ : near_queue_).reset();
    second.reset();
    (far_first ? near_queue_ : far_queue_).reset();
  }

 private:
  using Queue = std::unique_ptr<transport::VerbsCompletionQueue>;
  using Lane = std::unique_ptr<transport::VerbsLane>;

  Queue make_queue() {
    return value(transport::VerbsCompletionQueue::create(state_of(nic_).shared_from_this(), nullptr,
                                                         8 * kDepth));
  }

  Lane make_lane(Queue& queue) {
    return value(transport::VerbsLane::create(
        nic_, *queue, {.send_depth = kDepth, .receive_depth = kDepth, .inline_bytes = 64}));
  }

  static void wire(transport::Lane& lane, const transport::Lane& peer) {
    verbs::Wiring wiring;
    wiring.local = lane.local();
    wiring.remote = peer.local();
    wiring.reads_out = wiring.reads_in = 4;
    good(lane.connect(wiring));
  }

  Context context_ = value(Context::create());
  Nic nic_ = value(context_.open_nics()).front();
  Memory near_{context_, MemoryType::host, kBytes};
  Memory far_{context_, MemoryType::host, kBytes};
  Queue near_queue_ = make_queue();
  Queue far_queue_ = make_queue();
  Lane near_lane_;
  Lane far_lane_;
};

/// A minimal endpoint that implements only what a link needs.
class LinkUser final : public transport::TcpUser {
 public:
  [[nodiscard]] const std::string& peer() const noexcept override { return peer_; }

  Result<void> watch(int /*fd*/) override { return {}; }

  void watch_room(bool /*wanted*/) noexcept override {}

  void stop_watching() noexcept override {}

  void note_event() noexcept override {}

  void look_soon() noexcept override {}

  void begin_engine() noexcept override {}

  void end_engine() noexcept override {}

  [[nodiscard]] std::optional<transport::TcpWindow> window(
      std::uint64_t /*key*/) const noexcept override {
    return std::nullopt;
  }

  void lose_window(std::uint64_t /*key*/, const Error& /*why*/) noexcept override {}

  [[nodiscard]] std::byte* take_piece(MemoryDomain* /*device*/) noexcept override {
    if (free_.empty()) return nullptr;
    std::byte* const piece = free_.back();
    free_.pop_back();
    return piece;
  }

  void give_back(std::byte* piece) noexcept override { free_.push_back(piece); }

 private:
  static constexpr std::size_t kPieces = 4;

  std::string peer_ = "the other lane";
  std::vector<std::byte> memory_{kPieces * wire::kMaxTcpPayload};
  std::vector<std::byte*> free_{&memory_[0], &memory_[wire::kMaxTcpPayload],
                                &memory_[2 * wire::kMaxTcpPayload],
                                &memory_[3 * wire::kMaxTcpPayload]};
};

std::pair<Fd, Fd> connected_sockets() {
  const Fd listening{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listening.get(), any, size), 0);
  EXPECT_EQ(::listen(listening.get(), 1), 0);
  EXPECT_EQ(::getsockname(listening.get(), any, &size), 0);
  Fd dialed{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  EXPECT_EQ(::connect(dialed.get(), any, size), 0);
  Fd accepted{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  EXPECT_EQ(::fcntl(dialed.get(), F_SETFL, O_NONBLOCK), 0);
  return {std::move(dialed), std::move(accepted)};
}

class TcpLanes final : public LanePair {
 public:
  TcpLanes() {
    auto sockets = connected_sockets();
    near = near_link_->make_lane(false);
    far = far_link_->make_lane(false);
    good(near_link_->start(std::move(sockets.first)));
    good(far_link_->start(std::move(sockets.second)));
    remote_key_ = near_link_->key_of(exported_.token());
  }

  ~TcpLanes() override {
    near_link_.reset();
    far_link_.reset();
  }

  [[nodiscard]] transport::CompletionQueue& near_queue() override { return near_queue_; }

  [[nodiscard]] transport::CompletionQueue& far_queue() override { return far_queue_; }

  [[nodiscard]] std::span<std::byte> near_bytes() override { return bytes_of(near_.region()); }

  [[nodiscard]] std::span<std::byte> far_bytes() override { return bytes_of(far_.region()); }

  [[nodiscard]] std::uint32_t near_key() override { return 0; }

  [[nodiscard]] std::uint32_t far_key() override { return 0; }

  [[nodiscard]] std::uint32_t remote_key() override { return remote_key_; }

  void tear_down(bool far_first) override {
    (far_first ? far_link_ : near_link_).reset();
    (far_first ? far : near).reset();
    (far_first ? near : far).reset();
    (far_first ? near_link_ : far_link_).reset();
  }

 private:
  static constexpr transport::TcpLink::Depths kDepths{
      .data_requests = kDepth, .data_receives = kDepth, .control = 4};

  Context context_ = value(Context::create());
  Memory near_{context_, MemoryType::host, kBytes};
  Memory far_{context_, MemoryType::host, kBytes};
  detail::Export exported_{{.allocation = state_of(far_.region()).allocation,
                            .address = far_.region().address(),
                            .length_bytes = kBytes,
                            .access = kAll}};
  LinkUser near_user_;
  LinkUser far_user_;
  transport::TcpCompletionQueue near_queue_;
  transport::TcpCompletionQueue far_queue_;
  std::unique_ptr<transport::TcpLink> near_link_ =
      std::make_unique<transport::TcpLink>(near_queue_, near_user_, kDepths);
  std::unique_ptr<transport::TcpLink> far_link_ =
      std::make_unique<transport::TcpLink>(far_queue_, far_user_, kDepths);
  std::uint32_t remote_key_ = 0;
};

template <class Lanes>
std::unique_ptr<LanePair> make() {
  return std::make_unique<Lanes>();
}

}  // namespace

std::vector<LaneWay> lane_ways() { return {{"nic", make<NicLanes>}, {"tcp", make<TcpLanes>}}; }

}  // namespace hbmwire::test
