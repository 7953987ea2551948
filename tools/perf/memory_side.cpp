// SPDX-License-Identifier: MIT
#include "tools/perf/memory_side.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <future>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

#include "tools/common/hardware.hpp"
#include "tools/common/stopwatch.hpp"
#include "tools/common/text.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr const char* kDmabufSettings[] = {"HBMWIRE_GAUDI_DMABUF", "HBMWIRE_CUDA_DMABUF",
                                           "HBMWIRE_ROCM_DMABUF"};

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

/// The option overrides the settings, which the library reads when a context is created.
void set_dmabuf(const std::string& choice) {
  if (choice.empty()) return;
  for (const char* const name : kDmabufSettings)
    ::setenv(name, choice.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before any thread
}

Result<Context> make_context(const SideOptions& options) {
  ContextOptions wanted;
  wanted.memory = {MemoryType::host};
  if (options.memory != MemoryType::host) wanted.memory.push_back(options.memory);
  if (!options.nic.empty()) wanted.nics = {options.nic};
  if (options.by_endpoints && options.gid_index)
    wanted.gid_index = static_cast<std::uint8_t>(*options.gid_index);
  return Context::create(wanted);
}

/// The better paths that were refused, each with the reason.
std::vector<std::string> why_not_better(const Region& region) {
  std::vector<std::string> reasons;
  if (region.path() == Path::host) return reasons;
  for (const PathTried& tried : region.explain()) {
    if (tried.taken) break;
    reasons.push_back(
        fmt::format("not by {}: {}", to_string(tried.path), Failure(*tried.refusal).text));
  }
  return reasons;
}

Side describe_side(const Nic& nic, const MemoryDomain& domain, const Region& region,
                   std::uint64_t registration_ns) {
  Side side;
  const DeviceInfo& device = domain.device();
  side.host = host_name();
  side.nic = fmt::format("{}:{}", nic.info().name, nic.info().port);
  side.memory = to_string(device.type);
  if (device.type != MemoryType::host)
    side.device = fmt::format("{} ({})", device.name, device.driven_by);
  side.path = to_string(region.path());
  side.explanation = why_not_better(region);
  side.registered_bytes = region.size_bytes();
  side.registration_ns = static_cast<double>(registration_ns);
  side.registrations = 1;
  return side;
}

/// Names the option -x instead of the library's option.
Failure not_opened(const Error& error, const SideOptions& options) {
  const bool by_option = error.hint == Hint::link_options && options.gid_index;
  return by_option ? Failure(error, "choose another -x; `hbmwire info` lists those that there are")
                   : Failure(error);
}

/// Names --dmabuf instead of the library's setting.
Failure not_registered(const Error& error, const SideOptions& options) {
  const bool by_option = error.hint == Hint::dmabuf_forbidden && !options.dmabuf.empty();
  return by_option ? Failure(error, "leave out --dmabuf no, or choose --memory host")
                   : Failure(error);
}

Outcome<MemorySide> open_now(const SideOptions& options, const Layout& layout, Access access) {
  HBMWIRE_TRY_ASSIGN(auto context, make_context(options));
  const auto opened = context.open_nics();
  if (!opened) return tl::make_unexpected(not_opened(opened.error(), options));
  const std::vector<Nic>& nics = *opened;
  MemoryOptions device = options.device;
  // Memory that another process on this node can map is written without a NIC.
  device.host.shared =
      options.by_endpoints && options.memory == MemoryType::host && !options.keeps_private;
  HBMWIRE_TRY_ASSIGN(auto domain, context.open(options.memory, device));
  const std::uint64_t room = domain->device().size_bytes;
  if (room != 0 && layout.total_bytes() > room) {
    return fail(
        fmt::format("allocate: {}: {} for the buffers do not fit its {}: choose a smaller "
                    "-s, or fewer -q",
                    domain->device().name, size_text(layout.total_bytes()), size_text(room)));
  }
  HBMWIRE_TRY_ASSIGN(const auto allocation, domain->allocate(layout.total_bytes()));
  const Stopwatch stopwatch;
  const auto registered = context.register_memory(allocation, access);
  const std::uint64_t nanoseconds = stopwatch.nanoseconds();
  if (!registered) return tl::make_unexpected(not_registered(registered.error(), options));
  const auto& region = *registered;
  // The test measures the NICs of both ends, so staging is an error.
  if (region.path() == Path::staged)
    return tl::make_unexpected(not_registered(*region.explain().front().refusal, options));
  HBMWIRE_TRY_ASSIGN(auto buffer, Buffer::create(region));
  Side description = describe_side(nics.front(), *domain, region, nanoseconds);
  Way way = way_between(context, context.nics().value_or(std::vector<NicDevice>()),
                        nics.front().info(), domain->device());
  description.distance = std::move(way.distance);
  description.limits = std::move(way.limits);
  return MemorySide{std::move(context), nics.front(), std::move(domain),
                    std::move(buffer),  layout,       std::move(description),
                    options.gid_index};
}

}  // namespace

std::byte* MemorySide::host_address() const noexcept {
  // For host memory the address is a pointer (Allocation::address()).
  return reinterpret_cast<std::byte*>(  // NOLINT(performance-no-int-to-ptr)
      buffer.region().address());
}

Outcome<void> probe_nic(const SideOptions& options) {
  HBMWIRE_TRY(Nic::open(options.nic));
  return {};
}

Outcome<MemorySide> open_memory_side(const SideOptions& options, const Layout& layout,
                                     Access access, Session& session) {
  constexpr auto kSignOfLife = std::chrono::milliseconds(100);
  set_dmabuf(options.dmabuf);
  auto opened = std::async(std::launch::async, open_now, options, layout, access);
  Outcome<void> alive;
  // A call into the device's driver cannot be interrupted, so the wait goes on even if the peer has
  // disconnected.
  while (opened.wait_for(kSignOfLife) != std::future_status::ready) {
    if (alive) alive = session.tick();
  }
  auto side = opened.get();
  HBMWIRE_TRY(alive);
  return side;
}

}  // namespace hbmwire::tools::perf
