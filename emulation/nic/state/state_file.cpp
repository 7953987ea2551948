// SPDX-License-Identifier: MIT
#include "emulation/nic/state/state_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

int open_state(const std::filesystem::path& fabric, StateFile& file) {
  file.fd = ::open((fabric / "nic.shm").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file.fd < 0) return errno;

  struct stat status {};

  if (::fstat(file.fd, &status) != 0) return errno;
  if (status.st_size == 0 && ::ftruncate(file.fd, static_cast<off_t>(kFileBytes)) != 0)
    return errno;
  if (status.st_size != 0 && static_cast<std::uint64_t>(status.st_size) != kFileBytes)
    return EPROTO;
  void* mapping =
      ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.fd, 0);
  if (mapping == MAP_FAILED) return errno;
  ::madvise(mapping, kFileBytes, MADV_DONTDUMP);
  file.base = static_cast<std::byte*>(mapping);
  SharedState& shared = *reinterpret_cast<SharedState*>(file.base);
  Header& header = shared.header;
  if (header.magic == 0) {
    header.version = Header::kVersion;
    header.state_bytes = sizeof(SharedState);
    shared.heap.first_unused = kHeapStart;
    header.magic = Header::kMagic;  // last: the next process starts over if this one dies before
  }
  const bool ours = header.magic == Header::kMagic && header.version == Header::kVersion &&
                    header.state_bytes == sizeof(SharedState);
  return ours ? 0 : EPROTO;
}

void close_state(StateFile& file) {
  if (file.fd >= 0) ::close(file.fd);
  if (file.base != nullptr) ::munmap(file.base, kFileBytes);
  file = {};
}

}  // namespace hbmwire::emulation::nic
