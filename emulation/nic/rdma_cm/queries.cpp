// SPDX-License-Identifier: MIT
#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/command_call.hpp"
#include "emulation/nic/rdma_cm/event_queue.hpp"
#include "emulation/nic/rdma_cm/qp_attributes.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Makes librdmacm identify NICs by GUID: without a kernel device they have no index.
constexpr std::uint32_t kNoIndex = ~0U;

void fill_device(const CmId& id, rdma_ucm_query_addr_resp& response) {
  response.ibdev_index = kNoIndex;
  if (id.port.guid == 0) return;
  response.node_guid = id.port.guid;
  response.port_num = static_cast<std::uint8_t>(id.port.port);
  response.pkey = htobe16(kDefaultPkey);
}

int query_addresses(const CommandCall& call, const CmId& id, std::uint64_t to) {
  rdma_ucm_query_addr_resp response{};
  response.src_size = static_cast<std::uint16_t>(size_of(id.source));
  response.dst_size = static_cast<std::uint16_t>(size_of(id.destination));
  std::memcpy(&response.src_addr, id.source.bytes.data(), response.src_size);
  std::memcpy(&response.dst_addr, id.destination.bytes.data(), response.dst_size);
  fill_device(id, response);
  return call.write(to, response, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

IbAddress as_ib_address(const CmId& id, const CmAddress& address, const Gid& gid) {
  if (family_of(address) == kAfIb) return address_as<IbAddress>(address);
  IbAddress form{};
  form.family = kAfIb;
  form.pkey = id.port.guid != 0 ? htobe16(kDefaultPkey) : 0;
  form.gid = gid;
  form.service_id = service_id(id.port_space, address);
  return form;
}

int query_gids(const CommandCall& call, const CmId& id, std::uint64_t to) {
  rdma_ucm_query_addr_resp response{};
  const IbAddress source = as_ib_address(id, id.source, id.port.gid);
  const IbAddress destination = as_ib_address(id, id.destination, id.remote_gid);
  response.src_size = response.dst_size = sizeof(IbAddress);
  std::memcpy(&response.src_addr, &source, sizeof source);
  std::memcpy(&response.dst_addr, &destination, sizeof destination);
  fill_device(id, response);
  return call.write(to, response, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

int query_paths(const CommandCall& call, const CmId& id, std::uint64_t to) {
  // rdma_ucm_query_path_resp, followed by the paths.
  struct {
    std::uint32_t num_paths;
    std::uint32_t reserved;
    ib_path_rec_data path;
  } response{};

  static_assert(offsetof(decltype(response), path) == sizeof(rdma_ucm_query_path_resp));
  constexpr std::size_t kLeast = sizeof(rdma_ucm_query_path_resp);
  response.num_paths = count_paths(id);
  // As in the kernel, a path is copied only if more than its size is left.
  const bool fits = call.out_bytes > sizeof response;
  if (response.num_paths == 0 || !fits) {
    return call.write(to, rdma_ucm_query_path_resp{response.num_paths, 0});
  }
  response.path = packed_path_of(id);
  return call.write(to, response, kLeast);
}

/// Waits for an event, without CmLock. On a blocking channel it reads the byte from the FIFO, so
/// that a signal interrupts or restarts the wait as for any read().
int wait_for_event(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) != 0) return EAGAIN;
  char token = 0;
  if (flags >= 0 && ::read(fd, &token, 1) >= 0) return 0;
  if (errno != EBADF) return errno;
  // Another thread has closed the channel meanwhile (rping does so and returns from main()). In the
  // kernel the waiting thread would keep the file open and wait on, so wait here as well.
  ::pause();
  return errno;
}

/// Hands over the first event. Returns EAGAIN if there is none, EBUSY if a stopped process holds
/// the lock.
int hand_over(const CommandCall& call, std::uint64_t to, bool& is_request) {
  CmTables& tables = call.cm.tables();
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EBUSY;
  const std::uint32_t index = take_event(tables, call.file.channel);
  settle_fifo(call.cm.process, call.file.channel, call.file.fd);
  if (index == 0) return EAGAIN;
  CmEvent& event = tables.events[index];
  if (event.request.index != 0) {
    CmId& request = tables.ids[event.request.index];
    request.known = 1;
    set_channel(tables, request, call.file.channel);
    event.body.id = event.request.index;
    ++tables.ids[event.id].backlog;  // the listener has room for another request
    is_request = true;
  }
  const int error = call.write(to, event.body, offsetof(rdma_ucm_event_resp, reserved));
  release_event(tables, index);
  return error;
}

}  // namespace

int query_route(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_query>();
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  int error = 0;
  const CmId* id = id_of_call(call, command.id, error);
  if (id == nullptr) return error;
  rdma_ucm_query_route_resp response{};
  std::memcpy(&response.src_addr, id->source.bytes.data(), sizeof response.src_addr);
  std::memcpy(&response.dst_addr, id->destination.bytes.data(), sizeof response.dst_addr);
  response.ibdev_index = kNoIndex;
  if (id->port.guid != 0) {
    response.node_guid = id->port.guid;
    response.port_num = static_cast<std::uint8_t>(id->port.port);
    response.num_paths = count_paths(*id);
    response.ib_route[0] = path_of(*id);
  }
  return call.write(command.response, response, offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

int query(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_query>();
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  int error = 0;
  const CmId* id = id_of_call(call, command.id, error);
  if (id == nullptr) return error;
  switch (command.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return query_addresses(call, *id, command.response);
    case RDMA_USER_CM_QUERY_PATH:
      return query_paths(call, *id, command.response);
    case RDMA_USER_CM_QUERY_GID:
      return query_gids(call, *id, command.response);
    default:
      return ENOSYS;
  }
}

int get_event(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_get_event>();
  if (call.out_bytes < offsetof(rdma_ucm_event_resp, reserved)) return ENOSPC;
  while (true) {
    bool is_request = false;
    int error = hand_over(call, command.response, is_request);
    if (is_request) call.cm.timer.watch();
    if (error == EBUSY) {
      // A stopped process holds the lock. A blocking caller waits on.
      if ((::fcntl(call.file.fd, F_GETFL) & O_NONBLOCK) != 0) return EAGAIN;
      ::usleep(10'000);
      continue;
    }
    if (error != EAGAIN) return error;
    error = wait_for_event(call.file.fd);
    if (error != 0) return error;
  }
}

}  // namespace hbmwire::emulation::nic
