// SPDX-License-Identifier: MIT
#include "hbmwire/group.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/node_id.hpp"
#include "connect/connection_attempt.hpp"
#include "group/group_state.hpp"

namespace hbmwire {

namespace detail {

namespace {

Result<void> check(const GroupOptions& options) {
  if (!options.endpoint.hello.empty() || options.endpoint.retry_connect ||
      options.endpoint.messages != MessageMode::matched) {
    return refuse_options("the group itself sets this option of its endpoints",
                          "hello, retry_connect, messages");
  }
  if (options.size && (*options.size == 0 || *options.size > wire::kMostRanks))
    return refuse_options("a group has 1 to 4096 ranks", "size");
  if (options.rank && options.size && *options.rank >= *options.size)
    return refuse_options("a rank is less than the group's size", "rank");
  return {};
}

}  // namespace

Result<void> GroupState::check_process() const {
  if (!made.is_inherited()) return {};  // not a child by fork(2) of the process that made the group
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::complete,
                                        "the group belongs to the parent of this process", {},
                                        Hint::forked_nic));
}

Result<std::vector<std::optional<std::vector<std::byte>>>> GroupState::exchange(
    std::span<const std::byte> mine, bool among_present, const Wait& wait) {
  const std::size_t most = std::min(wire::kMostRankBytes, wire::kMostGroupBytes / hello.size);
  if (mine.size() > most)
    return refuse_options("a rank gives 1 MiB at most, all ranks 256 MiB", "exchange");
  HBMWIRE_TRY_ASSIGN(auto given, member->exchange(mine, among_present, wait));
  // The meeting point is another process, perhaps of another program: its answer is checked.
  const bool whole = given.bytes.size() == hello.size &&
                     (among_present || std::ranges::all_of(given.bytes, [](const auto& bytes) {
                        return bytes.has_value();
                      }));
  if (whole) return std::move(given.bytes);
  return tl::make_unexpected(
      make_error(Errc::protocol, Stage::complete,
                 "the meeting point's answer lacks the bytes of a rank, or has too many"));
}

Result<void> GroupState::meet(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const auto addresses, peers->addresses());
  wire::Join join{.epoch = joined.epoch, .member = {}};
  // The rank here does not count: the meeting point knows each rank by its connection.
  join.member = {.rank = 0, .host = host_name(), .addresses = addresses};
  const auto find_point = [&](const Wait& attempt_wait) -> Result<std::vector<std::string>> {
    if (point) return std::vector{point->address()};
    return place->look(attempt_wait);
  };
  HBMWIRE_TRY_ASSIGN(joined, member->meet(hello, join, find_point, wait));
  hello.rank = joined.rank;
  peers->begin(joined);
  return {};
}

}  // namespace detail

Group::Group(std::unique_ptr<detail::GroupState> state) noexcept : state_(std::move(state)) {}

Group::Group(Group&&) noexcept = default;

Group& Group::operator=(Group&& other) noexcept {
  if (this != &other) {
    const Group old(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Group::~Group() {
  // A child by fork(2) lacks the meeting point's thread, and its endpoints are the parent's: it
  // destroys nothing.
  if (state_ && state_->made.is_inherited()) static_cast<void>(state_.release());
}

Result<Group> Group::create(const Worker& worker, const Wait& wait, const GroupOptions& options) {
  return guarded(Stage::connect, [&]() -> Result<Group> {
    HBMWIRE_TRY(detail::check(options));
    GroupOptions all = options;
    HBMWIRE_TRY_ASSIGN(all.endpoint, detail::complete(worker.context(), options.endpoint));
    HBMWIRE_TRY_ASSIGN(detail::Launch launch, detail::find_launch(all, wait));
    auto state = std::make_unique<detail::GroupState>();
    state->launcher = std::move(launch.launcher);
    state->hello = {.size = launch.size, .rank = launch.rank};
    bool has_point = launch.rank == 0U;
    // Without a rank, the process that claims the place becomes rank 0.
    if (!launch.rank) {
      HBMWIRE_TRY_ASSIGN(has_point, launch.place->claim(wait));
      if (has_point) state->hello.rank = 0;
    }
    HBMWIRE_TRY_ASSIGN(state->peers,
                       detail::Peers::create(worker, all.endpoint, all.address, launch.size));
    if (has_point) {
      HBMWIRE_TRY_ASSIGN(state->point, detail::MeetingPoint::start(launch.size, all,
                                                                   std::move(launch.place), wait));
    } else {
      state->place = std::move(launch.place);
    }
    HBMWIRE_TRY_ASSIGN(state->member, detail::Member::create(worker, all.endpoint));
    HBMWIRE_TRY(state->meet(wait));
    return handle_of<Group>(std::move(state));
  });
}

std::uint32_t Group::rank() const noexcept { return state_->joined.rank; }

std::uint32_t Group::size() const noexcept { return state_->hello.size; }

std::uint32_t Group::epoch() const noexcept { return state_->joined.epoch; }

const std::string& Group::launcher() const noexcept { return state_->launcher; }

const std::vector<GroupMember>& Group::members() const noexcept { return state_->joined.members; }

std::vector<std::uint32_t> Group::failed() {
  if (!state_->check_process()) return {};
  return state_->member->gone();
}

Result<std::vector<std::vector<std::byte>>> Group::exchange(std::span<const std::byte> mine,
                                                            const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<std::vector<std::vector<std::byte>>> {
    HBMWIRE_TRY(state_->check_process());
    HBMWIRE_TRY_ASSIGN(auto given, state_->exchange(mine, /*among_present=*/false, wait));
    std::vector<std::vector<std::byte>> all;
    for (auto& bytes : given) all.push_back(std::move(*bytes));
    return all;
  });
}

Result<Group::PresentBytes> Group::exchange_among_present(std::span<const std::byte> mine,
                                                          const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<PresentBytes> {
    HBMWIRE_TRY(state_->check_process());
    return state_->exchange(mine, /*among_present=*/true, wait);
  });
}

Result<void> Group::barrier(const Wait& wait) {
  HBMWIRE_TRY(exchange({}, wait));
  return {};
}

Result<Endpoint*> Group::endpoint(std::uint32_t rank, const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<Endpoint*> {
    HBMWIRE_TRY(state_->check_process());
    return state_->peers->get(rank, detail::PeerUse::program, wait, *state_->member);
  });
}

void Group::drop_endpoint(std::uint32_t rank) noexcept {
  if (state_->check_process()) state_->peers->drop(rank, detail::PeerUse::program);
}

Result<void> Group::rejoin(const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<void> {
    HBMWIRE_TRY(state_->check_process());
    return state_->meet(wait);
  });
}

Result<void> Group::broadcast(const Slice& memory, std::uint32_t root, const Wait& wait,
                              const BroadcastOptions& options) {
  return guarded(Stage::complete, [&]() -> Result<void> {
    HBMWIRE_TRY(state_->check_process());
    return detail::broadcast(*state_, memory, root, wait, options);
  });
}

}  // namespace hbmwire
