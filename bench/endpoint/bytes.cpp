// SPDX-License-Identifier: MIT
#include "bench/endpoint/bytes.hpp"

#include <sys/mman.h>

namespace hbmwire::bench {

Bytes::Bytes(Kind kind, std::size_t bulk_bytes) : size_(kBulk + bulk_bytes) {
  if (kind == Kind::shared) {
    shared_.emplace(size_);
    data_ = shared_->data();
    return;
  }
  void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(memory);
}

Bytes::~Bytes() {
  if (!shared_) ::munmap(data_, size_);
}

}  // namespace hbmwire::bench
