// SPDX-License-Identifier: MIT
#include "transport/shared/ring.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace hbmwire::transport {

namespace {

Result<SharedRingFile*> map(const Fd& file, Stage stage) {
  void* const memory =
      ::mmap(nullptr, sizeof(SharedRingFile), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    return tl::make_unexpected(system_error(stage, "mmap", errno, "a ring between processes"));
  return static_cast<SharedRingFile*>(memory);
}

}  // namespace

MappedRing::~MappedRing() {
  if (file_ != nullptr) ::munmap(file_, sizeof *file_);
}

Result<void> MappedRing::make(SharedFile& file) {
  HBMWIRE_TRY_ASSIGN(file, SharedFile::create(sizeof(SharedRingFile)));
  HBMWIRE_TRY_ASSIGN(file_, map(file.fd, Stage::allocate));
  return {};
}

Result<void> MappedRing::open(const SharedFileName& name) {
  HBMWIRE_TRY_ASSIGN(const Fd file, SharedFile::open(name, sizeof(SharedRingFile)));
  HBMWIRE_TRY_ASSIGN(file_, map(file, Stage::open));
  return {};
}

}  // namespace hbmwire::transport
