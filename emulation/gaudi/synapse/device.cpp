// SPDX-License-Identifier: MIT
#include "emulation/gaudi/synapse/device.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "emulation/common/copy_past_caches.hpp"
#include "emulation/common/room.hpp"
#include "emulation/gaudi/testing_hooks.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kPage = 4096;
// The memory that the pool leaves to other users of the borrowed fd.
constexpr std::uint64_t kLeftToOthers = 6 * kGiB;
// The library's own structures lie at the start of the pool. Their size is not a multiple of the
// page size, so an application's first buffer does not begin on a page, and applications must not
// rely on that.
constexpr std::uint64_t kOwnBytes = (std::uint64_t{1} << 20) + 128;

std::uint32_t delay_from_environment() {
  const char* text = std::getenv("HBMWIRE_EMULATION_SYNAPSE_DELAY_US");
  return text == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

// In release 1.18 the member of synDeviceInfoV2 that holds the pool's base is only reserved, and 0.
bool release_reserves_pool_base() {
  const char* release = std::getenv("HBMWIRE_EMULATION_SYNAPSE_RELEASE");
  return release != nullptr && std::string_view(release) == "1.18";
}

void fill(const FillRequest& request, char* destination) {
  if (request.element_bytes == 1) {
    std::memset(destination, static_cast<int>(request.value), request.elements);
    return;
  }
  std::array<char, sizeof(request.value)> element;
  // Little endian: an element of 2 bytes is the first two of the value.
  std::memcpy(element.data(), &request.value, sizeof(request.value));
  for (std::uint64_t i = 0; i < request.elements; ++i) {
    std::memcpy(destination + i * request.element_bytes, element.data(), request.element_bytes);
  }
}

}  // namespace

synDeviceType device_type_of(int fd) {
  switch (hlthunk_get_device_name_from_fd(fd)) {
    case HLTHUNK_DEVICE_GAUDI:
    case HLTHUNK_DEVICE_GAUDI_HL2000M:
      return synDeviceGaudi;
    case HLTHUNK_DEVICE_GAUDI2:
    case HLTHUNK_DEVICE_GAUDI2B:
    case HLTHUNK_DEVICE_GAUDI2C:
    case HLTHUNK_DEVICE_GAUDI2D:
      return synDeviceGaudi2;
    case HLTHUNK_DEVICE_GAUDI3:
      return synDeviceGaudi3;
    default:
      return synDeviceTypeInvalid;
  }
}

Device::Device(int fd, const hlthunk_hw_ip_info& hw_ip)
    : fd_(fd), hw_ip_(hw_ip), delay_us_(delay_from_environment()) {}

std::unique_ptr<Device> Device::create(int fd, synStatus& status) {
  hlthunk_hw_ip_info hw_ip{};
  if (hlthunk_get_hw_ip_info(fd, &hw_ip) != 0) {
    hlthunk_close(fd);
    status = synFail;
    return nullptr;
  }
  std::unique_ptr<Device> device(new Device(fd, hw_ip));
  status = device->map_pool();
  return status == synSuccess ? std::move(device) : nullptr;
}

synStatus Device::map_pool() {
  if (device_type_of(fd_) == synDeviceGaudi) {
    pool_base_ = hw_ip_.dram_base_address;
    pool_bytes_ = hw_ip_.dram_size;
  } else {
    const std::uint64_t page = hw_ip_.dram_page_size;
    pool_bytes_ = (hw_ip_.dram_size - kLeftToOthers) / page * page;
    // Of pages of the default size, contiguous and shared.
    handle_ = hlthunk_device_memory_alloc(fd_, pool_bytes_, 0, true, true);
    if (handle_ == 0) return synOutOfDeviceMemory;
    pool_base_ = hlthunk_device_memory_map(fd_, handle_, 0);
    if (pool_base_ == 0) return synFail;
  }
  hbmwire_gaudi_backing_range backing;
  if (hbmwire_gaudi_backing(fd_, pool_base_, &backing) != 0 || backing.length_bytes < pool_bytes_)
    return synFail;
  file_ = backing.path;
  const int file = ::open(backing.path, O_RDWR | O_CLOEXEC);
  if (file < 0) return synFail;
  void* memory = ::mmap(nullptr, pool_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        file, static_cast<off_t>(backing.offset_bytes));
  ::close(file);
  if (memory == MAP_FAILED) return synOutOfHostMemory;
  ::madvise(memory, pool_bytes_, MADV_DONTDUMP);  // a core file of 90 GiB is of no use
  memory_ = static_cast<char*>(memory);
  memory_offset_ = backing.offset_bytes;
  posted_ = PostedWrites::open(backing.posted_path);
  heap_ = std::make_unique<DeviceHeap>(pool_base_ + kOwnBytes, pool_base_ + pool_bytes_);
  host_ = std::make_unique<HostMemory>(fd_);
  return synSuccess;
}

// Steps that fail here (a pool that is still exported cannot be unmapped) are completed when the
// last reference to the fd is closed.
Device::~Device() {
  if (host_) host_->clear();
  if (memory_ != nullptr) ::munmap(memory_, pool_bytes_);
  if (handle_ != 0 && pool_base_ != 0) hlthunk_memory_unmap(fd_, pool_base_);
  if (handle_ != 0) hlthunk_device_memory_free(fd_, handle_);
  hlthunk_close(fd_);
}

synDeviceInfoV2 Device::info() const {
  synDeviceInfoV2 info{};
  info.sramBaseAddress = hw_ip_.sram_base_address;
  info.dramBaseAddress = hw_ip_.dram_base_address;
  info.sramSize = hw_ip_.sram_size;
  info.dramSize = hw_ip_.dram_size;
  info.tpcEnabledMask = hw_ip_.tpc_enabled_mask_ext;
  info.dramEnabled = hw_ip_.dram_enabled;
  info.deviceId = hw_ip_.device_id;
  info.fd = static_cast<std::uint32_t>(fd_);
  info.deviceType = device_type_of(fd_);
  std::array<char, sizeof("0000:00:00.0")> bus_id{};
  if (hlthunk_get_pci_bus_id_from_fd(fd_, bus_id.data(), static_cast<int>(bus_id.size())) == 0) {
    info.deviceIndex =
        static_cast<std::uint8_t>(hlthunk_get_device_index_from_pci_bus_id(bus_id.data()));
  }
  // Gaudi1 has no pool that could be exported as a whole: each address is exported by itself.
  info.globalHbmBaseAddress = handle_ == 0 || release_reserves_pool_base() ? 0 : pool_base_;
  return info;
}

void Device::memory_info(std::uint64_t& free_bytes, std::uint64_t& total_bytes) {
  const std::shared_lock lock(mutex_);
  free_bytes = heap_->free_bytes();
  total_bytes = pool_bytes_;
}

synStatus Device::allocate(std::uint64_t bytes, std::uint64_t& address) {
  address = 0;
  if (bytes == 0) return synInvalidArgument;
  const std::unique_lock lock(mutex_);
  address = heap_->allocate(bytes);
  if (address == 0) return synOutOfDeviceMemory;
  if (reserve(file_.c_str(), device_pointer(address), bytes, true) == 0) return synSuccess;
  give_back(address);
  address = 0;
  return synOutOfDeviceMemory;
}

// Gives whole pages of the freed memory back to the machine.
synStatus Device::free(std::uint64_t address) {
  if (address == 0) return synSuccess;
  const std::unique_lock lock(mutex_);
  return give_back(address) ? synSuccess : synFail;
}

bool Device::give_back(std::uint64_t address) {
  const std::uint64_t bytes = heap_->free(address);
  if (bytes == 0) return false;
  const std::uint64_t begin = (address - pool_base_ + kPage - 1) / kPage * kPage;
  const std::uint64_t end = (address - pool_base_ + bytes) / kPage * kPage;
  if (begin < end) ::madvise(memory_ + begin, end - begin, MADV_REMOVE);
  return true;
}

synStatus Device::host_allocate(std::uint64_t bytes, void** buffer) {
  const std::unique_lock lock(mutex_);
  return host_->allocate(bytes, buffer);
}

synStatus Device::host_free(const void* buffer) {
  const std::unique_lock lock(mutex_);
  return host_->free(buffer);
}

synStatus Device::host_map(std::uint64_t bytes, const void* buffer) {
  const std::unique_lock lock(mutex_);
  return host_->map(bytes, buffer);
}

synStatus Device::host_unmap(const void* buffer) {
  const std::unique_lock lock(mutex_);
  return host_->unmap(buffer);
}

bool Device::valid(const CopyRequest& request) const {
  const bool source = request.direction == HOST_TO_DRAM
                          ? host_->contains(request.source, request.bytes)
                          : heap_->contains(request.source, request.bytes);
  const bool destination = request.direction == DRAM_TO_HOST
                               ? host_->contains(request.destination, request.bytes)
                               : heap_->contains(request.destination, request.bytes);
  return source && destination;
}

bool Device::valid(const FillRequest& request) const {
  return request.elements <= UINT64_MAX / request.element_bytes &&
         heap_->contains(request.destination, request.elements * request.element_bytes);
}

bool Device::accepts(const CopyRequest& request) {
  const std::shared_lock lock(mutex_);
  return valid(request);
}

bool Device::accepts(const FillRequest& request) {
  const std::shared_lock lock(mutex_);
  return valid(request);
}

synStatus Device::run(const CopyRequest& request) {
  const std::shared_lock lock(mutex_);
  if (!valid(request)) return synFail;
  if (posted_) return run_among_posted(request);
  switch (request.direction) {
    case HOST_TO_DRAM:
      store_by_engine(device_pointer(request.destination),
                      std::bit_cast<const char*>(request.source), request.bytes);
      return synSuccess;
    case DRAM_TO_HOST:
      std::memcpy(std::bit_cast<char*>(request.destination), device_pointer(request.source),
                  request.bytes);
      return synSuccess;
    case DRAM_TO_DRAM:
      std::memmove(device_pointer(request.destination), device_pointer(request.source),
                   request.bytes);
      return synSuccess;
    default:
      return synInvalidArgument;
  }
}

PostedWrites::Range Device::range_of(std::uint64_t address, std::uint64_t bytes) const {
  return {memory_offset_ + (address - pool_base_), bytes,
          reinterpret_cast<std::byte*>(device_pointer(address))};
}

synStatus Device::run_among_posted(const CopyRequest& request) {
  switch (request.direction) {
    case HOST_TO_DRAM:
      posted_->engine_writes(range_of(request.destination, request.bytes),
                             std::bit_cast<const std::byte*>(request.source));
      return synSuccess;
    case DRAM_TO_HOST:
      posted_->engine_reads(range_of(request.source, request.bytes),
                            std::bit_cast<std::byte*>(request.destination));
      return synSuccess;
    case DRAM_TO_DRAM: {
      std::vector<std::byte> all(request.bytes);  // the ranges may overlap
      posted_->engine_reads(range_of(request.source, request.bytes), all.data());
      posted_->engine_writes(range_of(request.destination, request.bytes), all.data());
      return synSuccess;
    }
    default:
      return synInvalidArgument;
  }
}

synStatus Device::run(const FillRequest& request) {
  const std::shared_lock lock(mutex_);
  if (!valid(request)) return synFail;
  if (posted_) {
    std::vector<std::byte> all(request.elements * request.element_bytes);
    fill(request, reinterpret_cast<char*>(all.data()));
    posted_->engine_writes(range_of(request.destination, all.size()), all.data());
  } else {
    fill(request, device_pointer(request.destination));
  }
  return synSuccess;
}

}  // namespace hbmwire::emulation::gaudi
