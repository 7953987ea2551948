// SPDX-License-Identifier: MIT
#include "tools/common/local_side.hpp"

#include <sys/mman.h>

#include <optional>

#include "hbmwire/buffer.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

constexpr Access kAccess = Access::local_write | Access::remote_write | Access::remote_read;

// Checks the size here, where it is known that the memory must hold two buffers of -s bytes each.
Outcome<void> check_room(const DeviceInfo& device, const Layout& layout) {
  const bool on_host = device.type == MemoryType::host;
  const MemoryRoom host = on_host ? host_memory_room() : MemoryRoom{};
  const std::uint64_t room = on_host ? host.bytes : device.size_bytes;
  if (room == 0 || layout.total_bytes() <= room) return {};
  const bool limited = on_host && host.limit != Hint::host_memory_exhausted;
  return fail(fmt::format(
      "allocate: {}: a buffer to send from and one to receive into, of {} each, do not fit the {} "
      "MiB of memory that {}: choose a smaller -s{}{}",
      device.name, size_text(layout.size_bytes), room >> 20,
      limited   ? "this process's limit leaves"
      : on_host ? "this machine has free"
                : "the card has",
      limited ? "; " : "", limited ? hint_text(host.limit) : ""));
}

// The name as its vendor writes it.
std::string_view brand(MemoryType type) {
  switch (type) {
    case MemoryType::gaudi:
      return "Gaudi";
    case MemoryType::cuda:
      return "CUDA";
    case MemoryType::rocm:
      return "ROCm";
    default:
      return to_string(type);
  }
}

Outcome<std::shared_ptr<MemoryDomain>> open_domain(const Context& context, MemoryType type,
                                                   const CommonOptions& options, Output& output) {
  if (type == MemoryType::host) {
    output.line("Initializing host memory...");
    HBMWIRE_TRY_ASSIGN(auto domain, context.open(type));
    return domain;
  }
  output.line("Initializing {} DMA-buf...", brand(type));
  HBMWIRE_TRY_ASSIGN(auto domain, context.open(type, options.device));
  output.line("{} device opened successfully ({}, driven by {})", brand(type),
              domain->device().name, domain->device().driven_by);
  return domain;
}

Outcome<Buffer> make_buffer(const std::shared_ptr<MemoryDomain>& domain, const Nic& nic,
                            const Layout& layout) {
  HBMWIRE_TRY(check_room(domain->device(), layout));
  HBMWIRE_TRY_ASSIGN(auto buffer, Buffer::create(domain, nic, layout.total_bytes(), kAccess));
  return buffer;
}

// Tries it: on a Gaudi mmap(2) fails as expected, which the seeds' output line states.
bool can_map_dmabuf(int fd) {
  void* address = ::mmap(nullptr, Layout::kAlignment, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return false;
  ::munmap(address, Layout::kAlignment);
  return true;
}

void print_nic(const NicInfo& nic, Output& output) {
  output.line("Opened IB device: {}", nic.name);
  output.line("   port {}, GID index {} ({}, {}), MTU {} bytes", nic.port, nic.gid_index,
              nic.gid_type, nic.gid, nic.mtu_bytes);
}

/// For device memory that does not use its dma-buf, prints the reasons.
void print_better_paths(const Region& region, Output& output) {
  if (region.path() == Path::host) return;
  for (const PathTried& tried : region.explain()) {
    if (tried.taken) return;
    output.line("   not by {}: {}", to_string(tried.path), Failure(*tried.refusal).text);
  }
}

Json to_json(const PathTried& tried) {
  Json json{{"path", to_string(tried.path)}, {"taken", tried.taken}};
  if (!tried.nic.empty()) json["nic"] = tried.nic;
  if (tried.refusal) json["refusal"] = Failure(*tried.refusal).text;
  return json;
}

void print_buffer(const LocalSide& side, Output& output) {
  const Region& region = side.buffer.region();
  if (region.path() == Path::zero_copy) {
    output.line("DMA-buf created successfully (fd={})", region.dmabuf_fd());
    output.line("DMA-buf mmap {}",
                can_map_dmabuf(region.dmabuf_fd())
                    ? "succeeded - CPU access available, but not used"
                    : "is refused, as is normal: the card's engine reads and writes it");
    output.line("✓ {} DMA-buf allocated (fd={}, va={:#x})", side.brand(), region.dmabuf_fd(),
                region.address());
    output.line("DMA-buf registered successfully with IB");
  } else {
    output.line("✓ Using {} buffer",
                region.path() == Path::peer_memory ? "peer memory" : "regular memory");
    output.line("Registered with IB by address");
  }
  print_better_paths(region, output);
  output.line("Host access to the buffer: {}", side.buffer.copy_path());
  output.line("✓ RDMA resources initialized");
}

/// Opens this side's hardware. The NIC is opened once, even if several memories are tried.
class Opener {
 public:
  Opener(const CommonOptions& options, Output& output) : options_(options), output_(output) {}

  Outcome<LocalSide> open();

 private:
  Outcome<void> try_type(MemoryType type);
  Outcome<void> try_types();
  Outcome<void> open_nic();

  const CommonOptions& options_;
  Output& output_;
  std::optional<Context> context_;
  std::optional<Nic> nic_;
  std::shared_ptr<MemoryDomain> domain_;
  std::optional<Buffer> buffer_;
  std::vector<LocalSide::NotUsed> not_used_;
};

Outcome<void> Opener::open_nic() {
  output_.line("Initializing RDMA resources...");
  HBMWIRE_TRY_ASSIGN(nic_, Nic::open(options_.nic, context_->settings().endpoint.gid_index));
  print_nic(nic_->info(), output_);
  return {};
}

Outcome<void> Opener::try_type(MemoryType type) {
  HBMWIRE_TRY_ASSIGN(domain_, open_domain(*context_, type, options_, output_));
  if (!nic_) HBMWIRE_TRY(open_nic());
  HBMWIRE_TRY_ASSIGN(buffer_, make_buffer(domain_, *nic_, Layout{options_.size_bytes}));
  return {};
}

// Takes the first type of device memory that exists and that the NIC can reach, else host memory,
// and prints the reasons against the others. Without a NIC no other memory would help, and a
// temporary shortage is no reason for a slower path: both are errors. If the user names a card or
// the driver of a Gaudi, failing to use it is an error, too.
Outcome<void> Opener::try_types() {
  const bool owner_named = options_.device.owner != MemoryOptions::Owner::automatic;
  for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    if (owner_named && type != MemoryType::gaudi) continue;
    const auto tried = try_type(type);
    if (tried || (domain_ && !nic_) || tried.error().shortage) return tried;
    output_.line("Not using {} memory: {}", brand(type), tried.error().text);
    not_used_.push_back({type, tried.error().text});
    domain_.reset();
  }
  if (options_.device.device.empty() && !owner_named) return try_type(MemoryType::host);
  std::string reasons;
  for (const auto& [type, reason] : not_used_)
    reasons += fmt::format("; {}: {}", brand(type), reason);
  return fail(fmt::format("open: {} can't be used{}",
                          options_.device.device.empty() ? "a Gaudi card, which --owner is about,"
                                                         : "--card " + options_.device.device,
                          reasons),
              kExitUnavailable);
}

Outcome<LocalSide> Opener::open() {
  HBMWIRE_TRY_ASSIGN(context_, Context::create());
  HBMWIRE_TRY(options_.memory ? try_type(*options_.memory) : try_types());
  LocalSide side{*context_,           std::move(domain_),          std::move(*nic_),
                 std::move(*buffer_), Layout{options_.size_bytes}, std::move(not_used_)};
  print_buffer(side, output_);
  return side;
}

}  // namespace

std::string LocalSide::memory_text() const {
  const DeviceInfo& info = device();
  return info.driven_by.empty() ? info.name : fmt::format("{} ({})", info.name, info.driven_by);
}

std::string_view LocalSide::brand() const noexcept { return tools::brand(device().type); }

Outcome<LocalSide> open_local_side(const CommonOptions& options, Output& output) {
  return Opener(options, output).open();
}

Json to_json(const LocalSide& side) {
  const Region& region = side.buffer.region();
  const NicInfo& nic = side.nic.info();
  Json paths = Json::array();
  for (const PathTried& tried : region.explain()) paths.push_back(to_json(tried));
  Json not_used = Json::array();
  for (const auto& [type, reason] : side.not_used)
    not_used.push_back({{"type", to_string(type)}, {"reason", reason}});
  return {{"memory",
           {{"type", to_string(side.device().type)},
            {"device", side.device().name},
            {"driven_by", side.device().driven_by},
            {"path", to_string(region.path())},
            {"paths", paths},
            {"address", fmt::format("{:#x}", region.address())},
            {"dmabuf_fd", region.dmabuf_fd()},
            {"not_used", not_used},
            {"copy_path", side.buffer.copy_path()}}},
          {"nic",
           {{"name", nic.name},
            {"port", nic.port},
            {"gid_index", nic.gid_index},
            {"gid_type", nic.gid_type},
            {"gid", nic.gid},
            {"mtu_bytes", nic.mtu_bytes}}}};
}

}  // namespace hbmwire::tools
