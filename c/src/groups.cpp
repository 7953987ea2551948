// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/group.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

/// The handles of the group's endpoints are made on first use, and end with their endpoints.
struct hbmwire_group : c::Held<Group> {
  std::map<std::uint32_t, std::unique_ptr<hbmwire_endpoint>> endpoints;
};

/// Empty elements are those of ranks that have ended.
struct hbmwire_exchanged : c::Listed<std::optional<std::vector<std::byte>>> {};

namespace {

Result<GroupOptions> group_options_of(const hbmwire_group_options* options) {
  hbmwire_group_options defaults;
  hbmwire_group_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_group_options given, c::options_of(options, defaults));
  GroupOptions wanted;
  wanted.meeting = c::text_of(given.meeting);
  wanted.address = c::text_of(given.address);
  HBMWIRE_TRY_ASSIGN(wanted.rank, c::optional_of<std::uint32_t>(given.rank, "rank"));
  HBMWIRE_TRY_ASSIGN(wanted.size, c::optional_of<std::uint32_t>(given.size, "size"));
  HBMWIRE_TRY_ASSIGN(wanted.endpoint, c::endpoint_options_of(given.endpoint));
  return wanted;
}

Result<BroadcastOptions> broadcast_options_of(const hbmwire_broadcast_options* options) {
  hbmwire_broadcast_options defaults;
  hbmwire_broadcast_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_broadcast_options given, c::options_of(options, defaults));
  return BroadcastOptions{.piece_bytes = given.piece_bytes, .verify = given.verify != 0};
}

/// Null: there is no such rank.
const GroupMember* member_of(const hbmwire_group& group, std::uint32_t rank) noexcept {
  const auto& members = group.value->members();
  return rank < members.size() ? &members[rank] : nullptr;
}

}  // namespace

void hbmwire_group_options_init(hbmwire_group_options* options, size_t struct_size) {
  hbmwire_group_options made{};
  made.rank = HBMWIRE_UNSET;
  made.size = HBMWIRE_UNSET;
  c::initialise(options, struct_size, made);
}

hbmwire_status hbmwire_group_create(hbmwire_worker* worker, int64_t timeout_ns, int32_t cancel_fd,
                                    const hbmwire_group_options* options, hbmwire_group** group,
                                    hbmwire_error* error) {
  return c::create(group, error, {{worker, "worker"}}, [&]() -> Result<Group> {
    HBMWIRE_TRY_ASSIGN(const GroupOptions wanted, group_options_of(options));
    return Group::create(*worker->value, c::wait_of(timeout_ns, cancel_fd), wanted);
  });
}

void hbmwire_group_free(hbmwire_group* group) { delete group; }

uint32_t hbmwire_group_rank(const hbmwire_group* group) {
  return group == nullptr ? 0 : group->value->rank();
}

uint32_t hbmwire_group_size(const hbmwire_group* group) {
  return group == nullptr ? 0 : group->value->size();
}

uint32_t hbmwire_group_epoch(const hbmwire_group* group) {
  return group == nullptr ? 0 : group->value->epoch();
}

const char* hbmwire_group_launcher(const hbmwire_group* group) {
  return group == nullptr ? nullptr : group->value->launcher().c_str();
}

void hbmwire_group_member_init(hbmwire_group_member* member, size_t struct_size) {
  c::initialise(member, struct_size, {});
}

hbmwire_status hbmwire_group_get_member(const hbmwire_group* group, uint32_t rank,
                                        hbmwire_group_member* member, hbmwire_error* error) {
  return c::run(error, {{group, "group"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(member, "member"));
    const GroupMember* const told = member_of(*group, rank);
    if (told == nullptr) return c::refuse("there is no such rank in the group", "rank");
    c::fill(member, {.struct_size = 0,
                     .host = told->host.c_str(),
                     .address_count = told->addresses.size(),
                     .rank = told->rank,
                     .reserved = 0});
    return {};
  });
}

const char* hbmwire_group_address(const hbmwire_group* group, uint32_t rank, size_t index) {
  const GroupMember* const told = group == nullptr ? nullptr : member_of(*group, rank);
  return told == nullptr || index >= told->addresses.size() ? nullptr
                                                            : told->addresses[index].c_str();
}

hbmwire_status hbmwire_group_failed(hbmwire_group* group, uint32_t* ranks, size_t capacity,
                                    size_t* count, hbmwire_error* error) {
  return c::run(error, {{group, "group"}, {count, "count"}}, [&]() -> Result<void> {
    *count = 0;
    if (capacity != 0) HBMWIRE_TRY(c::need({{ranks, "ranks"}}));
    const std::vector<std::uint32_t> failed = group->value->failed();
    std::copy_n(failed.begin(), std::min(capacity, failed.size()), ranks);
    *count = failed.size();
    return {};
  });
}

hbmwire_status hbmwire_group_exchange(hbmwire_group* group, const void* mine, size_t size,
                                      int64_t timeout_ns, int32_t cancel_fd,
                                      hbmwire_exchanged** all, hbmwire_error* error) {
  using All = std::vector<std::optional<std::vector<std::byte>>>;
  return c::create(all, error, {{group, "group"}}, [&]() -> Result<All> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(mine, size));
    HBMWIRE_TRY_ASSIGN(auto given,
                       group->value->exchange(bytes, c::wait_of(timeout_ns, cancel_fd)));
    return All(std::make_move_iterator(given.begin()), std::make_move_iterator(given.end()));
  });
}

hbmwire_status hbmwire_group_exchange_among_present(hbmwire_group* group, const void* mine,
                                                    size_t size, int64_t timeout_ns,
                                                    int32_t cancel_fd, hbmwire_exchanged** all,
                                                    hbmwire_error* error) {
  using All = std::vector<std::optional<std::vector<std::byte>>>;
  return c::create(all, error, {{group, "group"}}, [&]() -> Result<All> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(mine, size));
    return group->value->exchange_among_present(bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

size_t hbmwire_exchanged_count(const hbmwire_exchanged* all) {
  return all == nullptr ? 0 : all->all.size();
}

const void* hbmwire_exchanged_bytes(const hbmwire_exchanged* all, uint32_t rank, size_t* size) {
  if (size != nullptr) *size = 0;
  if (rank >= hbmwire_exchanged_count(all) || !all->all[rank]) return nullptr;
  const std::vector<std::byte>& bytes = *all->all[rank];
  if (size != nullptr) *size = bytes.size();
  // A vector without elements may have no address.
  return bytes.empty() ? static_cast<const void*>("") : bytes.data();
}

void hbmwire_exchanged_free(hbmwire_exchanged* all) { delete all; }

hbmwire_status hbmwire_group_barrier(hbmwire_group* group, int64_t timeout_ns, int32_t cancel_fd,
                                     hbmwire_error* error) {
  return c::run(error, {{group, "group"}},
                [&] { return group->value->barrier(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_group_endpoint(hbmwire_group* group, uint32_t rank, int64_t timeout_ns,
                                      int32_t cancel_fd, hbmwire_endpoint** endpoint,
                                      hbmwire_error* error) {
  if (endpoint != nullptr) *endpoint = nullptr;
  return c::run(error, {{group, "group"}, {endpoint, "endpoint"}}, [&]() -> Result<void> {
    auto known = group->endpoints.find(rank);
    if (known == group->endpoints.end())
      known = group->endpoints.emplace(rank, std::make_unique<hbmwire_endpoint>()).first;
    HBMWIRE_TRY_ASSIGN(known->second->value,
                       group->value->endpoint(rank, c::wait_of(timeout_ns, cancel_fd)));
    *endpoint = known->second.get();
    return {};
  });
}

void hbmwire_group_drop_endpoint(hbmwire_group* group, uint32_t rank) {
  if (group == nullptr) return;
  group->endpoints.erase(rank);
  group->value->drop_endpoint(rank);
}

void hbmwire_broadcast_options_init(hbmwire_broadcast_options* options, size_t struct_size) {
  const BroadcastOptions library;
  hbmwire_broadcast_options made{};
  made.piece_bytes = library.piece_bytes;
  made.verify = library.verify ? 1 : 0;
  c::initialise(options, struct_size, made);
}

hbmwire_status hbmwire_group_broadcast(hbmwire_group* group, const hbmwire_slice* memory,
                                       uint32_t root, int64_t timeout_ns, int32_t cancel_fd,
                                       const hbmwire_broadcast_options* options,
                                       hbmwire_error* error) {
  return c::run(error, {{group, "group"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const Slice slice, c::slice_of(memory));
    HBMWIRE_TRY_ASSIGN(const BroadcastOptions wanted, broadcast_options_of(options));
    return group->value->broadcast(slice, root, c::wait_of(timeout_ns, cancel_fd), wanted);
  });
}

hbmwire_status hbmwire_group_rejoin(hbmwire_group* group, int64_t timeout_ns, int32_t cancel_fd,
                                    hbmwire_error* error) {
  return c::run(error, {{group, "group"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(group->value->rejoin(c::wait_of(timeout_ns, cancel_fd)));
    group->endpoints.clear();
    return {};
  });
}
