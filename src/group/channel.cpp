// SPDX-License-Identifier: MIT
#include "group/channel.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/guarded.hpp"

namespace hbmwire::detail {

namespace {

// Most messages are shorter, and go at once; longer ones by rendezvous.
constexpr std::uint32_t kEagerBytes = 4096;

// A rank that computes takes no messages meanwhile, but no more than a few wait for it then.
constexpr std::uint32_t kReceiveDepth = 16;

// A meeting point has up to 4,096 channels, each with some messages under way.
constexpr std::uint32_t kMostTransfers = 32768;

}  // namespace

Result<GroupControl> GroupControl::create(const EndpointOptions& options) {
  const PathPolicy tcp_alone{.require = Path::tcp, .allow = {Path::tcp}};
  HBMWIRE_TRY_ASSIGN(
      Context context,
      Context::create({.memory = {MemoryType::host}, .nics = {"none"}, .paths = tcp_alone}));
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context, {.max_transfers = kMostTransfers,
                                                             .eager_bytes = kEagerBytes}));
  EndpointOptions channel;
  channel.send_depth = kReceiveDepth;
  channel.receive_depth = kReceiveDepth;
  channel.eager_bytes = kEagerBytes;
  channel.messages = MessageMode::handed_out;
  channel.peer_timeout = options.peer_timeout;
  // A rank that computes takes its messages late, and has not failed.
  channel.operation_timeout = std::chrono::nanoseconds::max();
  channel.pre_shared_key = options.pre_shared_key;
  channel.link = options.link;
  return GroupControl{std::move(context), std::move(worker), std::move(channel)};
}

Result<Region> GroupControl::pack(const wire::GroupMessage& message) const {
  const std::vector<std::byte> bytes = wire::encode(message);
  HBMWIRE_TRY_ASSIGN(Region packed,
                     context.allocate_region(MemoryType::host, bytes.size(), Access::remote_read));
  std::ranges::copy(bytes, packed.host_bytes().begin());
  return packed;
}

void GroupControl::tidy() noexcept {
  std::erase_if(left, [](const InUse& each) { return each.transfer.done(); });
}

Channel::Channel(GroupControl& control, Endpoint endpoint, std::size_t most_bytes)
    : control_(&control), most_bytes_(most_bytes), endpoint_(std::move(endpoint)) {}

Channel::~Channel() {
  endpoint_.reset();
  for (InUse& each : sent_) leave_to_control(each);
  for (Coming& each : coming_) {
    if (each.by_rendezvous) leave_to_control(*each.by_rendezvous);
  }
}

void Channel::leave_to_control(InUse& memory) noexcept {
  if (memory.transfer.done()) return;
  const auto kept = guarded(Stage::complete, [&]() -> Result<void> {
    control_->left.push_back(std::move(memory));
    return {};
  });
  // The transfer's end can't be waited for here: a region that is never deleted keeps the memory.
  if (!kept) static_cast<void>(new (std::nothrow) Region(memory.memory));
}

Result<void> Channel::say(const Region& packed) {
  // 0: the tag, which channels do not use.
  HBMWIRE_TRY_ASSIGN(Transfer transfer,
                     endpoint_->send(packed.slice(), 0, {.level = CompletionLevel::arrived}));
  sent_.push_back({packed, std::move(transfer)});
  return {};
}

Result<void> Channel::say(const wire::GroupMessage& message) {
  HBMWIRE_TRY_ASSIGN(const Region packed, control_->pack(message));
  return say(packed);
}

Result<Channel::Coming> Channel::begin_receive(IncomingMessage& message) const {
  Coming coming;
  if (message.is_here()) {
    coming.bytes.assign(message.bytes().begin(), message.bytes().end());
    return coming;
  }
  HBMWIRE_TRY_ASSIGN(Region memory,
                     control_->context.allocate_region(MemoryType::host, message.length_bytes(),
                                                       Access::remote_write));
  HBMWIRE_TRY_ASSIGN(Transfer transfer, message.receive(memory.slice()));
  coming.by_rendezvous = {std::move(memory), std::move(transfer)};
  return coming;
}

void Channel::take(IncomingMessage message) {
  if (broken_) return;
  if (message.length_bytes() <= most_bytes_) {
    if (auto coming = begin_receive(message)) {
      coming_.push_back(std::move(*coming));
      return;
    }
  }
  broken_ = true;
}

std::optional<wire::GroupMessage> Channel::hear() {
  if (coming_.empty() || broken_) return std::nullopt;
  Coming& first = coming_.front();
  std::span<const std::byte> bytes = first.bytes;
  if (first.by_rendezvous) {
    const auto received = first.by_rendezvous->transfer.poll();
    if (received && !*received) return std::nullopt;
    broken_ = !received;
    if (broken_) return std::nullopt;
    bytes = first.by_rendezvous->memory.host_bytes();
  }
  auto message = wire::decode_group(bytes);
  coming_.pop_front();
  if (message) return std::move(*message);
  broken_ = true;
  return std::nullopt;
}

bool Channel::all_taken() noexcept {
  while (!sent_.empty() && sent_.front().transfer.done()) sent_.pop_front();
  return sent_.empty();
}

bool Channel::over() const noexcept {
  if (broken_ || (closing_ && closing_.done())) return true;
  const EndpointPhase phase = endpoint_->phase();
  return phase == EndpointPhase::failed || phase == EndpointPhase::closed;
}

bool Channel::has_said_goodbye() const noexcept {
  return !broken_ && !closing_ && endpoint_->phase() == EndpointPhase::closed;
}

void Channel::close(std::chrono::milliseconds at_most) noexcept {
  if (closing_) return;
  if (auto closing = endpoint_->start_close(Deadline::after(at_most))) {
    closing_ = std::move(*closing);
  } else {
    broken_ = true;
  }
}

}  // namespace hbmwire::detail
