// SPDX-License-Identifier: MIT
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>

#include "base/memory_room.hpp"
#include "verbs/calls.hpp"
#include "verbs/device_list.hpp"
#include "verbs/nic_state.hpp"
#include "verbs/port.hpp"

namespace hbmwire::verbs {

namespace {

/// The device and the port that a text such as "mlx5_0:1" names.
struct Wanted {
  std::string name;       // empty: any
  std::uint8_t port = 0;  // 0: the first active one
};

Result<Wanted> parse_device(std::string_view text) {
  Wanted wanted;
  const std::size_t colon = text.rfind(':');
  wanted.name = text.substr(0, colon);
  if (colon == std::string_view::npos) return wanted;
  const std::string_view number = text.substr(colon + 1);
  const auto [end, failure] =
      std::from_chars(number.data(), number.data() + number.size(), wanted.port);
  if (failure != std::errc{} || end != number.data() + number.size() || wanted.port == 0) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "a device is NAME or NAME:PORT, ports count from 1", text,
                                          Hint::no_such_rdma_device));
  }
  return wanted;
}

Result<std::shared_ptr<detail::NicState>> open_device(ibv_device* device, std::uint8_t wanted_port,
                                                      std::optional<std::uint8_t> gid_index) {
  const char* name = ibv_get_device_name(device);
  auto state = std::make_shared<detail::NicState>();
  HBMWIRE_TRY_ASSIGN(
      state->context,
      from_pointer<DeviceContext>(ibv_open_device(device), Stage::open, "ibv_open_device", name));
  ibv_context* context = state->context.get();
  ibv_device_attr attributes{};
  HBMWIRE_TRY(from_errno_result(ibv_query_device(context, &attributes), Stage::open,
                                "ibv_query_device", name));

  // This error stays if no port has the wanted number.
  Result<NicInfo> info =
      tl::make_unexpected(make_error(Errc::not_found, Stage::open, "the device has no such port",
                                     name, Hint::no_such_rdma_device));
  for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    if (wanted_port != 0 && port != wanted_port) continue;
    info = query_port(context, port, gid_index);
    if (info) break;
  }
  if (!info) return tl::make_unexpected(info.error());
  state->info = std::move(*info);
  state->info.pci_address = pci_address(device);
  state->info.firmware = attributes.fw_ver;
  state->max_region_bytes = attributes.max_mr_size;
  state->limits = {.queue_pairs = attributes.max_qp,
                   .completion_queues = attributes.max_cq,
                   .completions = attributes.max_cqe,
                   .requests = attributes.max_qp_wr,
                   .shared_queues = attributes.max_srq,
                   .shared_receives = attributes.max_srq_wr,
                   .reads_in = attributes.max_qp_rd_atom,
                   .reads_out = attributes.max_qp_init_rd_atom,
                   .atomics = attributes.atomic_cap != IBV_ATOMIC_NONE};

  ibv_port_attr port_attributes{};
  HBMWIRE_TRY(from_errno_result(ibv_query_port(context, state->info.port, &port_attributes),
                                Stage::open, "ibv_query_port", name));
  state->lid = port_attributes.lid;
  HBMWIRE_TRY(
      from_minus_one(ibv_query_gid(context, state->info.port, state->info.gid_index, &state->gid),
                     Stage::open, "ibv_query_gid", name));
  HBMWIRE_TRY_ASSIGN(state->pd,
                     from_pointer<Pd>(ibv_alloc_pd(context), Stage::open, "ibv_alloc_pd", name));
  // take_async_events() reads this descriptor without blocking.
  const int flags = ::fcntl(context->async_fd, F_GETFL);
  if (flags == -1 || ::fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == -1)
    return tl::make_unexpected(system_error(Stage::open, "fcntl", errno, name));
  return state;
}

unsigned verbs_access(Access access) noexcept {
  unsigned flags = 0;
  if (has(access, Access::local_write)) flags |= IBV_ACCESS_LOCAL_WRITE;
  // Any remote write access also requires local write (ibv_reg_mr(3)).
  if (has(access, Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if (has(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (has(access, Access::remote_atomic))
    flags |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
  return flags;
}

/// Checked here, because drivers differ in how they treat a length that is too large.
Result<void> check_length(const detail::NicState& nic, std::uint64_t length) {
  if (nic.max_region_bytes == 0 || length <= nic.max_region_bytes) return {};
  return tl::make_unexpected(make_error(Errc::exhausted, Stage::register_memory,
                                        "larger than the NIC's largest memory region",
                                        nic.info.name, Hint::region_too_large));
}

/// The hint for a failed registration. A shortage has the same causes for all kinds of memory; any
/// other failure gets `otherwise`.
Hint shortage_or(const Error& error, std::size_t length, Hint otherwise) noexcept {
  if (error.number == ENOMEM) return memory_hint(Memory::locked, length);
  return is_shortage(error) ? error.hint : otherwise;
}

Hint host_hint(const Error& error, std::size_t length) noexcept {
  return shortage_or(error, length, error.number == EFAULT ? Hint::not_host_memory : Hint::none);
}

Hint dmabuf_hint(int error_number) noexcept {
  switch (error_number) {
    case EPERM:
      return Hint::dmabuf_no_p2p;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
    case 524:  // the kernel's ENOTSUPP, which errno.h lacks
      return Hint::dmabuf_not_supported;
    default:
      return Hint::dmabuf_rejected;
  }
}

// mlx5 reads the variable when a queue pair is made. Without the variable it would put small
// receives into the completion and let the CPU copy them, which cannot write device memory. It is
// set when the library is loaded, because a thread that reads the environment must not meet
// setenv(3). 0: if the user has set the variable, it stays.
[[gnu::constructor]] void keep_small_receives_out_of_completions() {
  ::setenv("MLX5_SCATTER_TO_CQE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

Result<std::shared_ptr<detail::NicState>> open_nic(std::string_view device,
                                                   std::optional<std::uint8_t> gid_index) {
  HBMWIRE_TRY_ASSIGN(const Wanted wanted, parse_device(device));
  const auto list = DeviceList::get();
  if (!list) {
    Error failed = list.error();
    // A caller that names a device must get an error instead of TCP.
    if (!wanted.name.empty() && failed.hint == Hint::no_rdma_device)
      failed.hint = Hint::no_such_rdma_device;
    return tl::make_unexpected(failed);
  }
  Error reason = wanted.name.empty()
                     ? make_error(Errc::not_found, Stage::probe, "no RDMA device found", {},
                                  Hint::no_rdma_device)
                     : make_error(Errc::not_found, Stage::probe, "no RDMA device of this name",
                                  wanted.name, Hint::no_such_rdma_device);
  for (ibv_device* candidate : list->devices()) {
    const std::string name = ibv_get_device_name(candidate);
    if (!wanted.name.empty()) {
      if (name == wanted.name) return open_device(candidate, wanted.port, gid_index);
      continue;
    }
    if (is_accelerators_own(candidate)) continue;
    auto opened = open_device(candidate, wanted.port, gid_index);
    if (opened) return opened;
    reason = opened.error();
  }
  return tl::make_unexpected(reason);
}

bool NicInterfaces::has(std::uint32_t number,
                        std::span<const std::uint8_t> hardware) const noexcept {
  if (std::ranges::find(numbers, number) != numbers.end()) return true;
  constexpr std::size_t kIpoibAddressBytes = 20;
  return guid && hardware.size() == kIpoibAddressBytes &&
         std::equal(guid->rbegin(), guid->rend(), hardware.rbegin());
}

NicInterfaces interfaces_of(const detail::NicState& nic) {
  NicInterfaces found;
  if (!nic.info.ethernet) {
    // The first GID is the port's own, which IPoIB uses; later ones may be aliases.
    ibv_gid own = nic.gid;
    ibv_query_gid(nic.context.get(), nic.info.port, 0, &own);
    found.guid.emplace();
    std::copy_n(std::begin(own.raw) + 8, found.guid->size(), found.guid->begin());
    return found;
  }
  ibv_port_attr attributes{};
  if (ibv_query_port(nic.context.get(), nic.info.port, &attributes) != 0) return found;
  for (const GidEntry& entry :
       read_gid_table(nic.context.get(), nic.info.port, attributes.gid_tbl_len)) {
    if (entry.interface != 0) found.numbers.push_back(entry.interface);
  }
  return found;
}

Error inherited_error(const detail::NicState& nic, Stage stage) noexcept {
  return make_error(Errc::not_supported, stage, "the NIC was opened before the fork, by the parent",
                    nic.info.name, Hint::forked_nic);
}

std::string with_limit(const detail::NicState& nic, std::string_view name, int most) {
  return nic.info.name + " (" + std::string(name) + ' ' + std::to_string(most) + ')';
}

Result<void> check_atomics(const detail::NicState& nic, Stage stage) {
  if (nic.limits.atomics) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, stage,
                                        "the NIC has no atomic operations", nic.info.name,
                                        Hint::no_atomics));
}

Result<Mr> register_host(detail::NicState& nic, void* address, std::size_t length, Access access) {
  HBMWIRE_TRY(check_process(nic, Stage::register_memory));
  HBMWIRE_TRY(check_length(nic, length));
  errno = 0;
  auto mr = from_pointer<Mr>(ibv_reg_mr(nic.pd.get(), address, length, verbs_access(access)),
                             Stage::register_memory, "ibv_reg_mr", nic.info.name);
  if (!mr) {
    Error error = mr.error();
    error.hint = host_hint(error, length);
    return tl::make_unexpected(error);
  }
  return mr;
}

Result<Mr> register_host(const detail::NicState& nic, const Pd& domain, void* address,
                         std::size_t length, Access access) {
  HBMWIRE_TRY(check_process(nic, Stage::register_memory));
  return from_pointer<Mr>(ibv_reg_mr(domain.get(), address, length, verbs_access(access)),
                          Stage::register_memory, "ibv_reg_mr", nic.info.name);
}

Result<Pd> allocate_domain(const detail::NicState& nic) {
  HBMWIRE_TRY(check_process(nic, Stage::open));
  return from_pointer<Pd>(ibv_alloc_pd(nic.context.get()), Stage::open, "ibv_alloc_pd",
                          nic.info.name);
}

Result<CompletionChannel> create_channel(const detail::NicState& nic) {
  HBMWIRE_TRY(check_process(nic, Stage::open));
  HBMWIRE_TRY_ASSIGN(auto channel, from_pointer<CompletionChannel>(
                                       ibv_create_comp_channel(nic.context.get()), Stage::open,
                                       "ibv_create_comp_channel", nic.info.name));
  const int fd = channel.get()->fd;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return channel;
  return tl::make_unexpected(system_error(Stage::open, "fcntl", errno, nic.info.name));
}

Result<Mr> register_dmabuf(detail::NicState& nic, int fd, std::uint64_t offset, std::size_t length,
                           std::uint64_t iova, Access access) {
  HBMWIRE_TRY(check_process(nic, Stage::register_memory));
  HBMWIRE_TRY(check_length(nic, length));
  errno = 0;
  auto mr = from_pointer<Mr>(ibv_reg_dmabuf_mr(nic.pd.get(), offset, length, iova, fd,
                                               static_cast<int>(verbs_access(access))),
                             Stage::register_memory, "ibv_reg_dmabuf_mr", nic.info.name);
  if (!mr) {
    Error error = mr.error();
    error.hint = shortage_or(error, length, dmabuf_hint(error.number));
    return tl::make_unexpected(error);
  }
  return mr;
}

Result<void> deregister(const detail::NicState& nic, Mr& mr) {
  if (!mr) return {};
  int result = ibv_dereg_mr(mr.get());
  // Calls it once more, as destructors do: the driver may have been busy with the region.
  if (result != 0) result = ibv_dereg_mr(mr.get());
  HBMWIRE_TRY(from_errno_result(result, Stage::register_memory, "ibv_dereg_mr", nic.info.name));
  static_cast<void>(mr.release());
  return {};
}

void* shared_receives_mark() noexcept {
  static char mark = 0;
  return &mark;
}

void take_async_events(detail::NicState& nic) noexcept {
  const std::lock_guard guard(nic.events);
  ibv_async_event event{};
  while (ibv_get_async_event(nic.context.get(), &event) == 0) {
    if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
      // An application may have its own queue pairs on this device.
      const ibv_qp& qp = *event.element.qp;
      if (qp.srq != nullptr && qp.srq->srq_context == shared_receives_mark())
        static_cast<SharedReceiver*>(qp.qp_context)->took_last.store(true);
    }
    ibv_ack_async_event(&event);
  }
}

}  // namespace hbmwire::verbs
