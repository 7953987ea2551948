// SPDX-License-Identifier: MIT
#include <cerrno>

#include "emulation/common/room.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// Protection domains and memory regions.
namespace hbmwire::emulation::nic {
namespace {

constexpr int kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                             IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |
                             static_cast<int>(IBV_ACCESS_OPTIONAL_RANGE);

/// man ibv_reg_mr: remote write and remote atomic require local write.
int check_access(int access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) return EOPNOTSUPP;
  if ((access & ~kKnownAccess) != 0) return EINVAL;
  const bool remote_writes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  return remote_writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;
}

/// Whether the kernel registers the range from `start` on that peers reach at `iova` (uverbs_cmd.c;
/// ib_umem_get and ib_umem_dmabuf_get refuse a range without a page). A range of length 0 has a
/// page unless it begins at the start of one.
bool is_range(std::uint64_t start, std::size_t length, std::uint64_t iova) {
  const std::uint64_t in_page = start & (kPageBytes - 1);
  return start + length >= start && iova + length >= iova &&
         ((iova ^ start) & (kPageBytes - 1)) == 0 && (length != 0 || in_page != 0);
}

/// man ibv_reg_mr: the addresses of a zero-based MR are offsets.
std::uint64_t first_address(std::uint64_t iova, int access) {
  return (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
}

/// A NIC whose writes land in order ignores IBV_ACCESS_RELAXED_ORDERING.
std::uint32_t heeded_access(const Pd& pd, std::uint32_t access) {
  constexpr std::uint32_t kRelaxed = IBV_ACCESS_RELAXED_ORDERING;
  return pd.context->device.behaviour.relaxed ? access : access & ~kRelaxed;
}

/// Returns null with errno on failure.
ibv_mr* register_region(Pd& pd, abi::MrType type, RegionRequest request,
                        std::shared_ptr<Reference> reference) {
  request.pd = pd.id;
  request.access = heeded_access(pd, request.access);
  request.room = pd.context->room(&NicLimits::mr);
  auto mr = std::make_unique<Mr>();
  mr->index = claim_region(*pd.process, request);
  if (mr->index == 0) return nullptr;
  mr->process = pd.process;
  mr->pd = &pd;
  mr->backing = std::move(request.backing);
  mr->reference = std::move(reference);
  mr->posted = std::move(request.posted);
  mr->handle.type = type;
  mr->handle.access = static_cast<int>(request.access);
  mr->handle.mr.handle = mr->index;
  mr->handle.mr.lkey = mr->handle.mr.rkey = pd.process->shared().mrs[mr->index].key.load();
  pd.users.fetch_add(1);
  pd.process->count(ObjectKind::mr, 1);
  return &mr.release()->handle.mr;
}

struct Reregistration {
  int flags;
  ibv_pd* pd;
  void* address;
  std::size_t length;
  int access;
};

/// The checks of the kernel before it changes the MR. libibverbs has refused unknown flags, an
/// empty new range, rights without their flag, and MRs of dma-bufs.
int check_reregistration(const Mr& mr, const Reregistration& wanted) {
  if (wanted.flags == 0) return EINVAL;
  if ((wanted.flags & IBV_REREG_MR_CHANGE_PD) != 0 &&
      (wanted.pd == nullptr || wanted.pd->context != mr.handle.mr.context)) {
    return EINVAL;
  }
  const auto start = reinterpret_cast<std::uint64_t>(wanted.address);
  return start + wanted.length < start ? EINVAL : check_access(wanted.access);
}

/// The MR's properties after the change.
RegionRequest changed_request(const Mr& mr, const Reregistration& wanted, const MrRecord& old) {
  RegionRequest request;
  request.pd = old.pd;
  request.room = mr.pd->context->room(&NicLimits::mr);
  request.iova = old.iova;
  request.length = old.length;
  request.access = old.access;
  request.address = old.address;
  const bool moves = (wanted.flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if ((wanted.flags & IBV_REREG_MR_CHANGE_PD) != 0) request.pd = object_of<Pd>(wanted.pd).id;
  if ((wanted.flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
    request.access = heeded_access(*mr.pd, static_cast<std::uint32_t>(wanted.access));
  if (moves) {
    request.address = reinterpret_cast<std::uint64_t>(wanted.address);
    request.length = wanted.length;
  }
  if (moves || ((request.access ^ old.access) & IBV_ACCESS_ZERO_BASED) != 0)
    request.iova = first_address(request.address, static_cast<int>(request.access));
  return request;
}

/// The number that identifies a NIC in its fabric: that of its first port.
std::uint32_t nic_of(const Pd& pd) { return pd.context->device.ports.front().fabric_port; }

/// Asks the fault plan about a registration.
CallFaults begin_registration(Process& process, const char* verb) {
  CallFaults faults;
  if (process.abandoned()) {
    faults.error_number = EIO;
    return faults;
  }
  faults = planned_faults(process, verb);
  if (faults.error_number == 0) faults.error_number = planned_limit(process, ObjectKind::mr);
  return faults;
}

void revoke(const Pd& pd, const ibv_mr& mr) {
  revoke_region(*pd.process, {pd.process->slot(), pd.id}, mr.rkey);
}

}  // namespace

ibv_pd* alloc_pd(ibv_context* context) {
  ContextState& state = state_of(context);
  int error = planned_failure(state.process, "ibv_alloc_pd", ObjectKind::pd);
  if (error == 0 && state.process.live(ObjectKind::pd) >= kMaxPds) error = ENOMEM;
  if (error != 0) return null_with(error);
  auto* pd = new Pd{};
  pd->process = &state.process;
  pd->context = &state;
  pd->id = state.process.new_id();
  pd->handle.handle = static_cast<std::uint32_t>(pd->id);
  state.process.count(ObjectKind::pd, 1);
  return &pd->handle;
}

int dealloc_pd(ibv_pd* handle) {
  Pd& pd = object_of<Pd>(handle);
  if (const int error = planned_failure(*pd.process, "ibv_dealloc_pd"); error != 0) return error;
  if (pd.users.load() != 0) return EBUSY;
  pd.process->count(ObjectKind::pd, -1);
  delete &pd;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* handle, void* address, std::size_t length, std::uint64_t iova, int access) {
  Pd& pd = object_of<Pd>(handle);
  const CallFaults planned = begin_registration(*pd.process, "ibv_reg_mr");
  if (planned.error_number != 0) return null_with(planned.error_number);
  if (const int error = check_access(access); error != 0) return null_with(error);
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if (!is_range(start, length, iova)) return null_with(EINVAL);
  if (const int error = populate(address, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
      error != 0) {
    return null_with(error);
  }
  RegionRequest request;
  request.iova = first_address(iova, access);
  request.length = length;
  request.access = static_cast<std::uint32_t>(access);
  request.address = start;
  ibv_mr* mr = register_region(pd, abi::kMrOfMemory, std::move(request), nullptr);
  if (mr != nullptr && planned.revoke) revoke(pd, *mr);
  return mr;
}

ibv_mr* reg_dmabuf_mr(ibv_pd* handle, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                      int fd, int access) {
  Pd& pd = object_of<Pd>(handle);
  const CallFaults planned = begin_registration(*pd.process, "ibv_reg_dmabuf_mr");
  if (planned.error_number != 0) return null_with(planned.error_number);
  // The provider librxe lacks the operation, and gives the same answer.
  if (!pd.context->device.behaviour.dmabuf) return null_with(EOPNOTSUPP);
  if (const int error = check_access(access); error != 0) return null_with(error);
  // man ibv_reg_dmabuf_mr: iova "must have the same page offset as offset".
  if (!is_range(offset, length, iova)) return null_with(EINVAL);
  Import import;
  if (const int error = import_dmabuf(fd, (access & IBV_ACCESS_LOCAL_WRITE) != 0, import);
      error != 0) {
    return null_with(error);
  }
  if (offset > import.length_bytes || length > import.length_bytes - offset)
    return null_with(EINVAL);
  RegionRequest request;
  request.iova = iova;
  request.length = length;
  request.access = static_cast<std::uint32_t>(access);
  request.file_offset = import.offset_bytes + offset;
  request.address = reinterpret_cast<std::uint64_t>(import.backing->base()) + request.file_offset;
  // A backing of segments is an address range, but its pages belong to the card's file.
  if (const int error = reserve(pd.process->world().fabric.c_str(),
                                reinterpret_cast<const void*>(request.address), length,
                                (access & IBV_ACCESS_LOCAL_WRITE) != 0);
      error != 0) {
    return null_with(error);
  }
  request.backing = std::move(import.backing);
  if (pd.context->device.behaviour.flush && !import.posted_path.empty()) {
    request.posted = PostedWrites::open(import.posted_path);
    if (!request.posted) return null_with(errno);
  }
  ibv_mr* mr =
      register_region(pd, abi::kMrOfDmabuf, std::move(request), std::move(import.reference));
  if (mr != nullptr && planned.revoke) revoke(pd, *mr);
  return mr;
}

/// Checks first, so that an MR stays unchanged if it cannot be changed. A new range gets a new key;
/// HCAs promise neither a new key nor the old one.
int rereg_mr(abi::MemoryRegion* region, int flags, ibv_pd* pd, void* address, std::size_t length,
             int access) {
  Mr& mr = object_of<Mr>(region);
  Process& process = *mr.process;
  const MrRecord& record = process.shared().mrs[mr.index];
  const Reregistration wanted{flags, pd, address, length, access};
  int error = planned_failure(process, "ibv_rereg_mr");
  if (error == 0) error = check_reregistration(mr, wanted);
  if (error == 0) {
    const RegionRequest request = changed_request(mr, wanted, record);
    error = populate(reinterpret_cast<const void*>(request.address), request.length,
                     (request.access & IBV_ACCESS_LOCAL_WRITE) != 0);
    const bool new_key = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    if (error == 0) error = change_region(process, mr.index, request, new_key);
  }
  if (error != 0) return error;
  region->mr.lkey = region->mr.rkey = record.key.load();
  region->access = static_cast<int>(record.access);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    mr.pd->users.fetch_sub(1);
    mr.pd = &object_of<Pd>(pd);
    mr.pd->users.fetch_add(1);
  }
  return 0;
}

int dereg_mr(abi::MemoryRegion* region) {
  Mr& mr = object_of<Mr>(region);
  Process& process = *mr.process;
  if (const int error = planned_failure(process, "ibv_dereg_mr"); error != 0) return error;
  if (const int error = release_region(process, mr.index); error != 0) return error;
  // Writes that are still posted must arrive now: afterwards the memory may be used for something
  // else.
  if (mr.posted) mr.posted->arrive(nic_of(*mr.pd));
  mr.pd->users.fetch_sub(1);
  process.count(ObjectKind::mr, -1);
  delete &mr;
  return 0;
}

}  // namespace hbmwire::emulation::nic
