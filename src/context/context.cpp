// SPDX-License-Identifier: MIT
#include "hbmwire/context.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/descriptors.hpp"
#include "base/every_setting.hpp"
#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/sysfs.hpp"
#include "context/context_state.hpp"
#include "context/path_policy.hpp"
#include "counters/reader.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"
#include "topology/near.hpp"
#include "topology/pci_link.hpp"
#include "trace/tracer.hpp"
#include "transport/copy/engine_copy.hpp"
#include "verbs/inventory.hpp"

namespace hbmwire {

namespace {

/// Refuses memory that has no dma-buf, if the policy excludes the only path that is left.
/// Registration is not even tried then.
Result<void> check_before(const Allocation& memory, const PathPolicy& policy) {
  const auto info = memory.domain().find(memory.address(), memory.size_bytes());
  if (!info || info->refusal || !info->no_dmabuf) return {};
  if (policy.admits(info->device->type, info->path)) return {};
  const std::vector<PathTried> refused{
      {.path = Path::zero_copy, .taken = false, .nic = {}, .refusal = info->no_dmabuf}};
  return tl::make_unexpected(detail::record_of(*info->device, info->path, refused).excluded);
}

/// Registers the memory with the NICs. If that is impossible and the policy admits it, a
/// device's engine copies instead: through pieces of host memory (staged), within this process
/// (copy), or to processes of this node (ipc).
Result<Region> register_or_stage(std::span<const Nic> nics, const Allocation& memory, Access access,
                                 const PathPolicy& policy) {
  MemoryDomain& domain = memory.domain();
  const MemoryType type = domain.device().type;
  const bool has_engine = transport::has_engine(domain);
  const bool may_copy = has_engine && policy.admits(type, Path::copy);
  const bool may_share = has_engine && has_ipc(type) && policy.admits(type, Path::ipc);
  // An endpoint with several NICs may have one that reaches the memory, so only a single NIC
  // falls back to staging.
  const bool one_nic = nics.size() == 1;
  const bool may_stage = type != MemoryType::host && one_nic && policy.admits(type, Path::staged);
  if (!may_stage && !may_copy && !may_share) {
    auto region = Nic::register_memory(nics, memory, access);
    if (region || !one_nic || !registration::can_be_staged(domain, region.error())) return region;
    // The NIC cannot register it, and the policy excludes every other path.
    Error excluded = region.error();
    excluded.code = Errc::permission_denied;
    return tl::make_unexpected(excluded);
  }
  const Path instead = may_stage ? Path::staged : may_copy ? Path::copy : Path::ipc;
  const auto staged = [&](Path path, const Error& error, std::string_view nic) -> Result<Region> {
    HBMWIRE_TRY_ASSIGN(auto region, registration::stage(memory, path, error, nic, access, instead));
    return handle_of<Region>(std::move(region));
  };
  const auto info = domain.find(memory.address(), memory.size_bytes());
  // A path that the policy excludes is not even tried.
  if (info && !info->refusal && !policy.admits(type, info->path) && !domain.copy_engine().empty()) {
    return staged(
        info->path,
        make_error(Errc::permission_denied, Stage::register_memory, "the path policy excludes it",
                   domain.device().name, Hint::path_policy),
        {});
  }
  auto region = Nic::register_memory(nics, memory, access);
  if (region || !info || !one_nic || !registration::can_be_staged(domain, region.error()))
    return region;
  return staged(info->path, region.error(), nics.front().info().name);
}

}  // namespace

Result<Context> Context::create(const ContextOptions& options) {
  return guarded(Stage::open, [&]() -> Result<Context> {
    HBMWIRE_TRY_ASSIGN(const EverySetting settings, every_setting());
    use_log_level(settings.log_level);
    HBMWIRE_TRY(detail::validate(detail::ContextState::completed(options, settings).paths));
    // Vendors' libraries that run out of descriptors or memory report no devices. These devices
    // would seem absent for as long as the Context lives.
    HBMWIRE_TRY(check_descriptors(Stage::probe, "devices and their libraries"));
    HBMWIRE_TRY_ASSIGN(auto counting, counters::ContextCounters::begin(settings.statistics));
    const auto state = std::make_shared<detail::ContextState>(options, settings);
    state->counting = std::move(counting);
    Context context(state);
    for (const MemoryProbe& probe : context.memory()) {
      if (probe.missing && is_shortage(*probe.missing)) return tl::make_unexpected(*probe.missing);
    }
    HBMWIRE_TRY(detail::Tracer::of_process().start_as_set(settings.trace));
    return context;
  });
}

const std::vector<MemoryProbe>& Context::memory() const noexcept { return state_->memory.probes(); }

const Settings& Context::settings() const noexcept { return state_->settings; }

Result<Counters> Context::counters() const {
  return counters::read_own({.context = state_->counting.number()});
}

Result<Counters> process_counters() { return counters::read_own({}); }

Result<std::vector<NicDevice>> Context::nics() const {
  return guarded(Stage::probe, [&]() -> Result<std::vector<NicDevice>> {
    HBMWIRE_TRY_ASSIGN(auto nics, verbs::list_nics(state_->options.gid_index));
    for (NicDevice& nic : nics) nic.numa_node = state_->pci().numa_node(nic.pci_address);
    return nics;
  });
}

std::vector<NearNic> Context::nics_near(std::string_view pci_address,
                                        const std::vector<NicDevice>& nics) const {
  return topology::nics_near(pci_address, nics, state_->pci());
}

int Context::numa_node(std::string_view pci_address) const {
  const auto found =
      guarded(Stage::probe, [&]() -> Result<int> { return state_->pci().numa_node(pci_address); });
  return found.value_or(-1);
}

std::optional<PciLink> Context::pci_link(std::string_view pci_address,
                                         std::string_view towards) const {
  return topology::narrowest_link(sysfs_root(), pci_address, towards);
}

Result<std::shared_ptr<MemoryDomain>> Context::open(MemoryType type,
                                                    const MemoryOptions& options) const {
  return guarded(Stage::open, [&]() -> Result<std::shared_ptr<MemoryDomain>> {
    return state_->memory.open(type, options);
  });
}

Result<AddressInfo> Context::find(std::uint64_t address, std::uint64_t length_bytes,
                                  std::string_view device) const {
  return guarded(Stage::probe, [&]() -> Result<AddressInfo> {
    return state_->memory.find(address, length_bytes, device);
  });
}

Result<Allocation> Context::borrow(std::uint64_t address, std::uint64_t length_bytes,
                                   std::string_view device) const {
  return guarded(Stage::open, [&]() -> Result<Allocation> {
    return state_->memory.borrow(address, length_bytes, device);
  });
}

Result<Allocation> Context::import_dmabuf(const DmabufMemory& memory) const {
  return guarded(Stage::open,
                 [&]() -> Result<Allocation> { return state_->memory.import_dmabuf(memory); });
}

Result<Allocation> Context::adopt(const GaudiMemory& memory) const {
  return guarded(Stage::open, [&]() -> Result<Allocation> { return state_->memory.adopt(memory); });
}

Result<std::vector<Nic>> Context::open_nics() const {
  return guarded(Stage::open, [&]() -> Result<std::vector<Nic>> { return state_->open_nics(); });
}

Result<Allocation> Context::allocate(MemoryType type, std::uint64_t size_bytes,
                                     const MemoryOptions& options) const {
  HBMWIRE_TRY_ASSIGN(const auto domain, open(type, options));
  return domain->allocate(size_bytes);
}

Result<Region> Context::allocate_region(MemoryType type, std::uint64_t size_bytes, Access access,
                                        const MemoryOptions& options) const {
  HBMWIRE_TRY_ASSIGN(const Allocation memory, allocate(type, size_bytes, options));
  return register_memory(memory, access);
}

Result<Region> Context::register_memory(std::uint64_t address, std::uint64_t length_bytes,
                                        Access access) const {
  HBMWIRE_TRY_ASSIGN(const Allocation memory, borrow(address, length_bytes));
  return register_memory(memory, access);
}

Result<Region> Context::register_memory(const void* address, std::uint64_t length_bytes,
                                        Access access) const {
  return register_memory(reinterpret_cast<std::uint64_t>(address), length_bytes, access);
}

Result<Region> Context::register_memory(const Allocation& memory, Access access) const {
  return guarded(Stage::register_memory, [&]() -> Result<Region> {
    const auto opened = open_nics();
    if (!opened && detail::may_do_without(*this, opened.error())) {
      HBMWIRE_TRY_ASSIGN(auto kept, registration::without_nic(memory, opened.error(), access));
      detail::note(*kept->paths);
      return handle_of<Region>(std::move(kept));
    }
    if (!opened) return tl::make_unexpected(opened.error());
    const std::vector<Nic>& nics = *opened;
    const MemoryType type = memory.domain().device().type;
    constexpr std::array kWithoutNic{Path::staged, Path::copy, Path::ipc};
    // Registered or not, the CPU reaches this memory for a peer of the node.
    const bool by_cpu =
        type == MemoryType::host && paths().admits(MemoryType::host, Path::shared_memory);
    const bool needs_nic = !by_cpu && std::ranges::none_of(kWithoutNic, [&](Path path) {
      return paths().admits(type, path);
    });
    if (needs_nic) HBMWIRE_TRY(check_before(memory, paths()));
    HBMWIRE_TRY_ASSIGN(Region region, register_or_stage(nics, memory, access, paths()));
    const detail::PathRecord& record = *state_of(region).paths;
    if (!paths().admits(record.type, record.path) && !by_cpu)
      return tl::make_unexpected(record.excluded);
    detail::note(record);
    return region;
  });
}

Result<Region> Context::register_dmabuf(const DmabufMemory& memory, Access access) const {
  HBMWIRE_TRY_ASSIGN(const Allocation imported, import_dmabuf(memory));
  return register_memory(imported, access);
}

const PathPolicy& Context::paths() const noexcept { return state_->options.paths; }

}  // namespace hbmwire
