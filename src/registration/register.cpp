// SPDX-License-Identifier: MIT
#include "registration/register.hpp"

#include <bit>
#include <cerrno>
#include <string>
#include <utility>

#include "base/probes.hpp"
#include "memory/host/mapped_pages.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::registration {

namespace {

using detail::NicState;
using detail::RegionState;
using detail::writes;

/// Why a path could not be taken, and with which NIC; `nic` is empty if no NIC is at fault.
struct Failure {
  Error error;
  std::string nic;
};

using Attempt = tl::expected<void, Failure>;

/// Calls `make(nic)` for each NIC in turn. Registers with all of them or with none.
template <class Make>
Attempt with_each(std::span<const Nic> nics, RegionState& region, Make make) {
  for (const Nic& nic : nics) {
    Result<verbs::Mr> mr = make(state_of(nic));
    if (!mr) {
      region.registrations.clear();
      return tl::make_unexpected(Failure{mr.error(), nic.info().name});
    }
    region.add({.nic = state_of(nic).shared_from_this(), .mr = std::move(*mr)});
  }
  return {};
}

Result<DmabufRange> export_for(const Allocation& memory, Access access) {
  HBMWIRE_TRY_ASSIGN(DmabufRange range,
                     memory.domain().export_dmabuf(memory.address(), memory.size_bytes()));
  if (range.writable || !writes(access)) return range;
  return tl::make_unexpected(make_error(Errc::permission_denied, Stage::register_memory,
                                        "the dma-buf is open read-only",
                                        memory.domain().device().name, Hint::dmabuf_read_only));
}

/// Exports one dma-buf for all NICs.
Attempt by_dmabuf(std::span<const Nic> nics, RegionState& region) {
  auto exported = export_for(region.allocation, region.access);
  if (!exported) return tl::make_unexpected(Failure{exported.error(), {}});
  const DmabufRange range = std::move(*exported);
  Attempt attempt = with_each(nics, region, [&](NicState& nic) {
    return verbs::register_dmabuf(nic, range.fd->get(), range.offset_bytes, range.length_bytes,
                                  range.address(), region.access);
  });
  if (attempt) region.dmabuf = range;
  return attempt;
}

Attempt by_address(std::span<const Nic> nics, RegionState& region) {
  void* const address = std::bit_cast<void*>(region.address());
  Attempt attempt = with_each(nics, region, [&](NicState& nic) {
    return verbs::register_host(nic, address, region.allocation.size_bytes(), region.access);
  });
  if (attempt || attempt.error().error.number != EFAULT) return attempt;
  // EFAULT says only that something is wrong with the pages; this check finds out what.
  const auto looked =
      check_memory(region.allocation, region.address(), region.size_bytes, region.access);
  if (!looked) attempt.error().error = looked.error();
  return attempt;
}

/// Registers `region` by `path`. Only for paths that the memory's domain has named. A device's
/// address is registered by address only if the domain says that a peer-memory client translates
/// it.
Attempt take(Path path, std::span<const Nic> nics, RegionState& region) {
  region.path = path;
  return path == Path::zero_copy ? by_dmabuf(nics, region) : by_address(nics, region);
}

}  // namespace

Result<void> check_nics(std::span<const Nic> nics) {
  const auto refuse = [](const char* why, std::string_view subject) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::register_memory, why, subject));
  };
  if (nics.empty()) return refuse("no NIC is named", {});
  for (const Nic& nic : nics) {
    HBMWIRE_TRY(verbs::check_process(state_of(nic), Stage::register_memory));
    if (!state_of(nic).context) return refuse("an endpoint over TCP has no NIC", nic.info().name);
  }
  for (std::size_t i = 1; i < nics.size(); ++i) {
    for (const Nic& before : nics.first(i)) {
      if (&state_of(before) == &state_of(nics[i]))
        return refuse("the NIC is named twice", nics[i].info().name);
    }
  }
  return {};
}

Result<void> check_access(Access access) {
  if ((access | kAllAccess) == kAllAccess) return {};
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                        "the access has bits that mean nothing"));
}

Result<void> check_memory(const Allocation& memory, std::uint64_t address,
                          std::uint64_t length_bytes, Access access) {
  MemoryDomain& domain = memory.domain();
  const DeviceInfo& device = domain.device();
  // The export finds out whether the dma-buf is open read-only.
  if (device.type == MemoryType::dmabuf && writes(access)) HBMWIRE_TRY(export_for(memory, access));
  if (device.type != MemoryType::host) return {};
  const auto info = domain.find(address, length_bytes);
  // Only the application's own pages can change; the library's memory stays as it was mapped.
  if (!info || info->lifetime != Lifetime::address_space) return {};
  return memory::host::check_pages({address, address + length_bytes}, writes(access), device.name);
}

namespace {

Result<std::shared_ptr<detail::RegionState>> try_to_register(std::span<const Nic> nics,
                                                             const Allocation& memory,
                                                             const AddressInfo& info,
                                                             Access access) {
  HBMWIRE_TRY(check_nics(nics));
  if (has(access, Access::remote_atomic)) {
    for (const Nic& nic : nics)
      HBMWIRE_TRY(verbs::check_atomics(state_of(nic), Stage::register_memory));
  }
  if (info.refusal) return tl::make_unexpected(*info.refusal);
  auto region = std::make_shared<RegionState>(memory, access);
  region->registrations.reserve(nics.size());
  if (info.no_dmabuf) {
    region->refused.push_back(
        {.path = Path::zero_copy, .taken = false, .nic = {}, .refusal = info.no_dmabuf});
  }
  const Attempt best = take(info.path, nics, *region);
  if (best) {
    region->explain_by(detail::record_of(memory.domain().device(), region->path, region->refused));
    return region;
  }
  // A shortage is temporary, but the region would keep the slower path for its whole life.
  const bool may_replace = info.otherwise && !is_shortage(best.error().error);
  if (!may_replace || !take(*info.otherwise, nics, *region))
    return tl::make_unexpected(best.error().error);
  HBMWIRE_PROBE5(fallback, Fallback::registration, memory.domain().device().name.c_str(), info.path,
                 *info.otherwise, best.error().error.code);
  region->refused.push_back(
      {.path = info.path, .taken = false, .nic = best.error().nic, .refusal = best.error().error});
  region->explain_by(detail::record_of(memory.domain().device(), region->path, region->refused));
  return region;
}

}  // namespace

Result<std::shared_ptr<detail::RegionState>> register_with(std::span<const Nic> nics,
                                                           const Allocation& memory,
                                                           const AddressInfo& info, Access access) {
  auto region = try_to_register(nics, memory, info, access);
  [[maybe_unused]] const MemoryType type = memory.domain().device().type;
  // The last argument: the error's code, or -1.
  if (region) {
    HBMWIRE_PROBE5(register, memory.address(), memory.size_bytes(), type, (*region)->path, -1);
  } else {
    HBMWIRE_PROBE5(register, memory.address(), memory.size_bytes(), type, info.path,
                   static_cast<int>(region.error().code));
  }
  return region;
}

bool can_be_staged(const MemoryDomain& domain, const Error& error) noexcept {
  const bool of_the_nic =
      error.hint == Hint::dmabuf_not_supported || error.hint == Hint::dmabuf_no_p2p;
  return of_the_nic && !domain.copy_engine().empty();
}

Result<std::shared_ptr<RegionState>> stage(const Allocation& memory, Path path, const Error& error,
                                           std::string_view nic, Access access, Path instead) {
  HBMWIRE_TRY(check_access(access));
  auto region = std::make_shared<RegionState>(memory, access);
  region->path = instead;
  HBMWIRE_PROBE5(fallback, Fallback::staging, memory.domain().device().name.c_str(), path, instead,
                 error.code);
  region->refused.push_back(
      {.path = path, .taken = false, .nic = std::string(nic), .refusal = error});
  region->explain_by(detail::record_of(memory.domain().device(), instead, region->refused));
  return region;
}

Result<std::shared_ptr<RegionState>> without_nic(const Allocation& memory, const Error& why,
                                                 Access access) {
  HBMWIRE_TRY(check_access(access));
  HBMWIRE_TRY(check_memory(memory, memory.address(), memory.size_bytes(), access));
  const DeviceInfo& device = memory.domain().device();
  auto region = std::make_shared<RegionState>(memory, access);
  if (device.type != MemoryType::host) {
    if (memory.domain().copy_engine().empty()) return tl::make_unexpected(why);
    region->path = Path::tcp;
    region->refused.push_back({.path = Path::zero_copy, .taken = false, .nic = {}, .refusal = why});
  }
  region->explain_by(detail::record_of(device, region->path, region->refused));
  return region;
}

}  // namespace hbmwire::registration
