// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory_contract.hpp"

namespace hbmwire::test {

void PrintTo(const MemorySubject& subject, std::ostream* out) { *out << subject.name; }

MemoryTest::MemoryTest() : context_(take(Context::create())) {
  if (GetParam().allocates) domain_ = take(context_.open(GetParam().type, GetParam().options));
}

Allocation MemoryTest::make(std::uint64_t size_bytes, std::uint64_t variant) const {
  if (GetParam().make) return take(GetParam().make(context_, size_bytes, variant));
  return take(domain_->allocate(size_bytes));
}

const Nic& MemoryTest::nic() {
  if (!nic_) nic_ = take(Nic::open());
  return *nic_;
}

void MemoryTest::write(const Allocation& memory, std::uint64_t offset,
                       std::span<const std::byte> bytes) {
  if (has_engine()) {
    must(memory.domain().copy_in(memory.address() + offset, bytes, soon()));
    return;
  }
  must(take(Buffer::create(memory, nic(), Access::local_write)).write(offset, bytes, soon()));
}

std::vector<std::byte> MemoryTest::read(const Allocation& memory, std::uint64_t offset,
                                        std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (has_engine()) {
    must(memory.domain().copy_out(memory.address() + offset, bytes, soon()));
  } else {
    must(take(Buffer::create(memory, nic(), Access::local_write)).read(offset, bytes, soon()));
  }
  return bytes;
}

void MemoryTransfer::rdma_write(std::span<const std::byte> bytes, const RemoteMemory& target) {
  const auto host = take(context_.open(MemoryType::host));
  Buffer source = take(Buffer::create(host, nic(), bytes.size(), Access::none));
  must(source.write(0, bytes, soon()));
  Connection connection = take(Connection::create(nic(), {}));
  must(connection.connect(connection.local()));
  must(connection.post_write(0, {&source.region(), 0, bytes.size()}, target));
  take(connection.wait(soon()));
}

}  // namespace hbmwire::test
