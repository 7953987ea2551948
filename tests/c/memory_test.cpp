// SPDX-License-Identifier: MIT
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "ends.hpp"

// Devices, memory, its registrations and its keys.
namespace hbmwire::c_test {
namespace {

[[nodiscard]] hbmwire_region_info info_of(const hbmwire_region* region) {
  auto info = HBMWIRE_MADE(hbmwire_region_info);
  good([&](auto* error) { return hbmwire_region_get_info(region, &info, error); });
  return info;
}

[[nodiscard]] Allocation allocate(const Context& context, hbmwire_memory_type type) {
  return make<Allocation>([&](auto** made, auto* error) {
    return hbmwire_context_allocate(context.get(), type, kBytes, nullptr, made, error);
  });
}

TEST(CContext, TellsOfMemoryAndDevices) {
  const Context context = make_context();
  auto probe = HBMWIRE_MADE(hbmwire_memory_probe);
  auto device = HBMWIRE_MADE(hbmwire_device);
  Failure missing;
  good([&](auto* error) {
    return hbmwire_context_memory(context.get(), HBMWIRE_MEMORY_GAUDI, &probe, &missing.error,
                                  error);
  });
  EXPECT_EQ(probe.device_count, 1U);
  EXPECT_EQ(missing.error.code, HBMWIRE_OK);
  good([&](auto* error) {
    return hbmwire_context_device(context.get(), HBMWIRE_MEMORY_GAUDI, 0, &device, error);
  });
  EXPECT_EQ(device.type, HBMWIRE_MEMORY_GAUDI);
  EXPECT_NE(std::string(device.name).find("gaudi"), std::string::npos);
  EXPECT_GT(device.size_bytes, 0U);
  good([&](auto* error) {
    return hbmwire_context_memory(context.get(), HBMWIRE_MEMORY_CUDA, &probe, &missing.error,
                                  error);
  });
  EXPECT_EQ(probe.device_count, 0U);
  EXPECT_NE(missing.error.code, HBMWIRE_OK);
  refused(HBMWIRE_NOT_FOUND, [&](auto* error) {
    return hbmwire_context_device(context.get(), HBMWIRE_MEMORY_CUDA, 0, &device, error);
  });
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_context_memory(context.get(), 5, &probe, nullptr, error);
  });
}

TEST(CContext, TellsOfNics) {
  const Context context = make_context();
  using Nics = std::unique_ptr<hbmwire_nics, Freed<hbmwire_nics_free>>;
  using Near = std::unique_ptr<hbmwire_near_nics, Freed<hbmwire_near_nics_free>>;
  const auto nics = make<Nics>(
      [&](auto** made, auto* error) { return hbmwire_context_nics(context.get(), made, error); });
  ASSERT_EQ(hbmwire_nics_count(nics.get()), 2U);
  auto device = HBMWIRE_MADE(hbmwire_nic_device);
  auto port = HBMWIRE_MADE(hbmwire_nic_info);
  auto gid = HBMWIRE_MADE(hbmwire_gid);
  Failure refusal;
  good(
      [&](auto* error) { return hbmwire_nics_get(nics.get(), 1, &device, &refusal.error, error); });
  EXPECT_STREQ(device.name, "emu1");
  ASSERT_EQ(device.port_count, 1U);
  EXPECT_GT(device.max_qp, 0U);
  good([&](auto* error) {
    return hbmwire_nics_port(nics.get(), 1, 0, &port, &refusal.error, error);
  });
  EXPECT_STREQ(port.state, "active");
  ASSERT_GT(port.gid_count, 0U);
  good([&](auto* error) { return hbmwire_nics_gid(nics.get(), 1, 0, 0, &gid, error); });
  EXPECT_STRNE(gid.gid, "");
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_nics_get(nics.get(), 2, &device, nullptr, error); });
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_nics_port(nics.get(), 0, 1, &port, nullptr, error); });
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_nics_gid(nics.get(), 0, 0, 1000, &gid, error); });
  const auto near = make<Near>([&](auto** made, auto* error) {
    return hbmwire_context_nics_near(context.get(), "0000:33:00.0", nics.get(), made, error);
  });
  ASSERT_EQ(hbmwire_near_nics_count(near.get()), 2U);
  auto one = HBMWIRE_MADE(hbmwire_near_nic);
  good([&](auto* error) { return hbmwire_near_nics_get(near.get(), 0, &one, error); });
  EXPECT_STRNE(hbmwire_distance_name(one.distance), "");
  EXPECT_GE(hbmwire_context_numa_node(context.get(), "0000:33:00.0"), -1);
  auto link = HBMWIRE_MADE(hbmwire_pci_link);
  const hbmwire_status status =
      hbmwire_context_pci_link(context.get(), "ffff:ff:1f.7", nullptr, &link, nullptr);
  EXPECT_EQ(status, HBMWIRE_NOT_FOUND);
}

TEST(CMemory, AnAllocationIsFoundExportedAndRegistered) {
  const Context context = make_context();
  const Allocation memory = allocate(context, HBMWIRE_MEMORY_GAUDI);
  EXPECT_EQ(hbmwire_allocation_type(memory.get()), HBMWIRE_MEMORY_GAUDI);
  EXPECT_EQ(hbmwire_allocation_size_bytes(memory.get()), kBytes);
  auto found = HBMWIRE_MADE(hbmwire_address_info);
  good([&](auto* error) {
    return hbmwire_context_find(context.get(), hbmwire_allocation_address(memory.get()), kBytes,
                                nullptr, &found, nullptr, nullptr, error);
  });
  EXPECT_EQ(found.type, HBMWIRE_MEMORY_GAUDI);
  EXPECT_EQ(found.path, HBMWIRE_PATH_ZERO_COPY);
  EXPECT_STRNE(found.pci_address, "");
  auto range = HBMWIRE_MADE(hbmwire_dmabuf_range);
  good([&](auto* error) { return hbmwire_allocation_export_dmabuf(memory.get(), &range, error); });
  ASSERT_GE(range.fd, 0);
  const auto region = make<Region>([&](auto** made, auto* error) {
    return hbmwire_context_register_allocation(context.get(), memory.get(), kAll, made, error);
  });
  const hbmwire_region_info info = info_of(region.get());
  EXPECT_EQ(info.path, HBMWIRE_PATH_ZERO_COPY);
  EXPECT_EQ(info.access, kAll);
  EXPECT_GE(info.dmabuf_fd, 0);
  EXPECT_EQ(hbmwire_region_host_bytes(region.get()), nullptr);
  ASSERT_EQ(info.nic_count, 1U);
  auto nic = HBMWIRE_MADE(hbmwire_nic_info);
  good([&](auto* error) { return hbmwire_region_nic(region.get(), 0, &nic, error); });
  EXPECT_STREQ(nic.name, "emu0");
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_region_nic(region.get(), 1, &nic, error); });
  using Paths = std::unique_ptr<hbmwire_paths_tried, Freed<hbmwire_paths_tried_free>>;
  const auto paths = make<Paths>(
      [&](auto** made, auto* error) { return hbmwire_region_explain(region.get(), made, error); });
  ASSERT_GT(hbmwire_paths_tried_count(paths.get()), 0U);
  auto tried = HBMWIRE_MADE(hbmwire_path_tried);
  good(
      [&](auto* error) { return hbmwire_paths_tried_get(paths.get(), 0, &tried, nullptr, error); });
  EXPECT_EQ(tried.path, HBMWIRE_PATH_ZERO_COPY);
  EXPECT_EQ(tried.taken, 1);
  ::close(range.fd);
  Failure failed;
  const hbmwire_status advised =
      hbmwire_allocation_advise(memory.get(), HBMWIRE_ADVICE_PREFETCH, &failed.error);
  EXPECT_TRUE(advised == HBMWIRE_OK || advised == HBMWIRE_NOT_SUPPORTED) << failed.text();
}

TEST(CMemory, ADmabufOfTheApplicationsIsImported) {
  const Context context = make_context();
  const Allocation memory = allocate(context, HBMWIRE_MEMORY_GAUDI);
  auto range = HBMWIRE_MADE(hbmwire_dmabuf_range);
  good([&](auto* error) { return hbmwire_allocation_export_dmabuf(memory.get(), &range, error); });
  auto dmabuf = HBMWIRE_MADE(hbmwire_dmabuf);
  dmabuf.fd = range.fd;
  dmabuf.offset_bytes = range.offset_bytes;
  dmabuf.length_bytes = range.length_bytes;
  const auto imported = make<Allocation>([&](auto** made, auto* error) {
    return hbmwire_context_import_dmabuf(context.get(), &dmabuf, made, error);
  });
  EXPECT_EQ(hbmwire_allocation_type(imported.get()), HBMWIRE_MEMORY_DMABUF);
  const auto region = make<Region>([&](auto** made, auto* error) {
    return hbmwire_context_register_dmabuf(context.get(), &dmabuf, kAll, made, error);
  });
  EXPECT_EQ(info_of(region.get()).size_bytes, kBytes);
  ::close(range.fd);
  dmabuf.fd = HBMWIRE_NO_FD;
  hbmwire_allocation* none = nullptr;
  Failure failed;
  EXPECT_NE(hbmwire_context_import_dmabuf(context.get(), &dmabuf, &none, &failed.error),
            HBMWIRE_OK);
  EXPECT_EQ(none, nullptr);
}

TEST(CMemory, AnAddressThatIsNoGaudiMemoryIsNotAdopted) {
  const Context context = make_context();
  auto memory = HBMWIRE_MADE(hbmwire_gaudi_memory);
  memory.size_bytes = kBytes;
  hbmwire_allocation* none = nullptr;
  Failure failed;
  EXPECT_NE(hbmwire_context_adopt(context.get(), &memory, &none, &failed.error), HBMWIRE_OK);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(failed.text(), "");
}

TEST(CMemory, HostMemoryOfTheApplicationsIsBorrowed) {
  const Context context = make_context();
  std::vector<unsigned char> bytes(kBytes, 1);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto borrowed = make<Allocation>([&](auto** made, auto* error) {
    return hbmwire_context_borrow(context.get(), address, kBytes, nullptr, made, error);
  });
  EXPECT_EQ(hbmwire_allocation_address(borrowed.get()), address);
  const auto region = make<Region>([&](auto** made, auto* error) {
    return hbmwire_context_register_memory(context.get(), address, kBytes, kAll, made, error);
  });
  EXPECT_EQ(hbmwire_region_host_bytes(region.get()), bytes.data());
  set(region, 3);
  EXPECT_EQ(bytes[17], 3);
  hbmwire_region* none = nullptr;
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_context_register_memory(context.get(), address, kBytes, 64, &none, error);
  });
}

TEST(CMemory, ADomainAllocatesAndCopies) {
  const Context context = make_context();
  using Domain = std::unique_ptr<hbmwire_domain, Freed<hbmwire_domain_free>>;
  using Copy = std::unique_ptr<hbmwire_copy, Freed<hbmwire_copy_free>>;
  const auto domain = make<Domain>([&](auto** made, auto* error) {
    return hbmwire_context_open(context.get(), HBMWIRE_MEMORY_HOST, nullptr, made, error);
  });
  auto device = HBMWIRE_MADE(hbmwire_device);
  good([&](auto* error) { return hbmwire_domain_device(domain.get(), &device, error); });
  EXPECT_STREQ(device.name, "host");
  char engine[32];
  hbmwire_domain_copy_engine(domain.get(), engine, sizeof engine);
  EXPECT_STREQ(engine, "CPU");
  const auto memory = make<Allocation>([&](auto** made, auto* error) {
    return hbmwire_domain_allocate(domain.get(), kBytes, made, error);
  });
  const std::uint64_t at = hbmwire_allocation_address(memory.get());
  const std::vector<unsigned char> from(kBytes, 5);
  std::vector<unsigned char> to(kBytes);
  good([&](auto* error) {
    return hbmwire_domain_copy_in(domain.get(), at, from.data(), kBytes, kSecond, HBMWIRE_NO_FD,
                                  error);
  });
  good([&](auto* error) {
    return hbmwire_domain_copy_out(domain.get(), at, to.data(), kBytes, kSecond, HBMWIRE_NO_FD,
                                   error);
  });
  EXPECT_EQ(from, to);
  const auto in = make<Copy>([&](auto** made, auto* error) {
    return hbmwire_domain_start_copy_in(domain.get(), at, from.data(), kBytes, made, error);
  });
  good(
      [&](auto* error) { return hbmwire_copy_wait(in.get(), 10 * kSecond, HBMWIRE_NO_FD, error); });
  const auto out = make<Copy>([&](auto** made, auto* error) {
    return hbmwire_domain_start_copy_out(domain.get(), at, to.data(), kBytes, made, error);
  });
  bool over = false;
  while (!over) good([&](auto* error) { return hbmwire_copy_poll(out.get(), &over, error); });
  good([&](auto* error) { return hbmwire_domain_flush(domain.get(), &over, error); });
}

TEST(CMemory, ABufferCopiesManyTimes) {
  const Context context = make_context();
  const Region region = make_region(context, HBMWIRE_MEMORY_GAUDI);
  using Buffer = std::unique_ptr<hbmwire_buffer, Freed<hbmwire_buffer_free>>;
  using Copy = std::unique_ptr<hbmwire_copy, Freed<hbmwire_copy_free>>;
  const auto buffer = make<Buffer>(
      [&](auto** made, auto* error) { return hbmwire_buffer_create(region.get(), made, error); });
  EXPECT_EQ(hbmwire_buffer_size_bytes(buffer.get()), kBytes);
  char path[32];
  EXPECT_GT(hbmwire_buffer_copy_path(buffer.get(), path, sizeof path), 0U);
  const std::vector<unsigned char> from(kBytes, 5);
  std::vector<unsigned char> to(kBytes);
  good([&](auto* error) {
    return hbmwire_buffer_write(buffer.get(), 0, from.data(), kBytes, 10 * kSecond, HBMWIRE_NO_FD,
                                error);
  });
  good([&](auto* error) {
    return hbmwire_buffer_read(buffer.get(), 0, to.data(), kBytes, 10 * kSecond, HBMWIRE_NO_FD,
                               error);
  });
  EXPECT_EQ(from, to);
  for (const bool writes : {true, false}) {
    const auto copy = make<Copy>([&](auto** made, auto* error) {
      return writes ? hbmwire_buffer_start_write(buffer.get(), 0, from.data(), kBytes, made, error)
                    : hbmwire_buffer_start_read(buffer.get(), 0, to.data(), kBytes, made, error);
    });
    good([&](auto* error) {
      return hbmwire_copy_wait(copy.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
    });
  }
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_buffer_write(buffer.get(), 1, from.data(), kBytes, kSecond, HBMWIRE_NO_FD,
                                error);
  });
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_buffer_read(buffer.get(), 0, nullptr, kBytes, kSecond, HBMWIRE_NO_FD, error);
  });
}

TEST(CKeys, AKeyOpensItsRangeUntilItIsRevoked) {
  const Ends ends;
  auto options = HBMWIRE_MADE(hbmwire_memory_key_options);
  options.offset_bytes = 1024;
  options.length_bytes = 64;
  options.access = HBMWIRE_ACCESS_REMOTE_WRITE;
  options.revocable = 1;
  options.expires_after_ns = 3600 * kSecond;
  const auto key = make<Key>([&](auto** made, auto* error) {
    return hbmwire_memory_key_pack(ends.b_region.get(), &options, made, error);
  });
  EXPECT_TRUE(hbmwire_memory_key_revocable(key.get()));
  EXPECT_TRUE(hbmwire_memory_key_valid(key.get()));
  std::size_t size = 0;
  const void* const bytes = hbmwire_memory_key_bytes(key.get(), &size);
  const auto unpacked = make<RemoteKey>([&](auto** made, auto* error) {
    return hbmwire_remote_key_unpack(bytes, size, made, error);
  });
  auto info = HBMWIRE_MADE(hbmwire_memory_key_info);
  auto own = HBMWIRE_MADE(hbmwire_memory_key_info);
  good([&](auto* error) { return hbmwire_remote_key_get_info(unpacked.get(), &info, error); });
  good([&](auto* error) { return hbmwire_memory_key_get_info(key.get(), &own, error); });
  EXPECT_EQ(std::memcmp(&info, &own, sizeof info), 0);
  EXPECT_EQ(info.length_bytes, 64U);
  EXPECT_EQ(info.access, std::uint32_t{HBMWIRE_ACCESS_REMOTE_WRITE});
  EXPECT_GT(info.expires_unix_ns, 0);
  ASSERT_EQ(info.nic_count, 1U);
  std::uint8_t gid[16] = {};
  std::uint32_t number = 0;
  good([&](auto* error) { return hbmwire_remote_key_nic(unpacked.get(), 0, gid, &number, error); });
  EXPECT_NE(number, 0U);
  for (const bool by_key : {true, false}) {
    const auto remote = make<Remote>([&](auto** made, auto* error) {
      return by_key ? hbmwire_endpoint_remote_by_key(ends.a.get(), unpacked.get(), made, error)
                    : hbmwire_endpoint_remote_by_bytes(ends.a.get(), bytes, size, made, error);
    });
    const hbmwire_slice from = ends.here(0, 64);
    const hbmwire_remote_slice to{remote.get(), 0, 64};
    ends.finish(make<Transfer>([&](auto** made, auto* error) {
      return hbmwire_endpoint_put(ends.a.get(), &from, &to, nullptr, made, error);
    }));
  }
  good([&](auto* error) { return hbmwire_memory_key_revoke(key.get(), error); });
  EXPECT_FALSE(hbmwire_memory_key_valid(key.get()));
  hbmwire_remote_key* none = nullptr;
  refused(HBMWIRE_PROTOCOL,
          [&](auto* error) { return hbmwire_remote_key_unpack("no key", 6, &none, error); });
}

TEST(CAttach, AnotherContextAttachesToAGaudisMemory) {
  const Context context = make_context();
  const Region region = make_region(context, HBMWIRE_MEMORY_GAUDI);
  using AttachListener =
      std::unique_ptr<hbmwire_attach_listener, Freed<hbmwire_attach_listener_free>>;
  using Publication =
      std::unique_ptr<hbmwire_attach_publication, Freed<hbmwire_attach_publication_free>>;
  const auto listener = make<AttachListener>(
      [&](auto** made, auto* error) { return hbmwire_attach_listener_create(made, error); });
  const auto publication = make<Publication>([&](auto** made, auto* error) {
    return hbmwire_attach_listener_publish(listener.get(), region.get(), made, error);
  });
  hbmwire_attach_address address;
  good([&](auto* error) {
    return hbmwire_attach_publication_address(publication.get(), &address, error);
  });
  auto attached = HBMWIRE_MADE(hbmwire_attached);
  Allocation memory;
  std::thread other([&] {
    memory = make<Allocation>([&](auto** made, auto* error) {
      return hbmwire_attach(context.get(), &address, 10 * kSecond, HBMWIRE_NO_FD, &attached, made,
                            error);
    });
  });
  pollfd entry{.fd = hbmwire_attach_listener_fd(listener.get()), .events = POLLIN, .revents = 0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::atomic<bool> over{false};
  std::thread joining([&] {
    other.join();
    over = true;
  });
  while (!over && std::chrono::steady_clock::now() < end) {
    ::poll(&entry, 1, 10);
    good([&](auto* error) { return hbmwire_attach_listener_progress(listener.get(), error); });
  }
  joining.join();
  EXPECT_EQ(attached.type, HBMWIRE_MEMORY_GAUDI);
  EXPECT_EQ(attached.writable, 1);
  EXPECT_EQ(hbmwire_allocation_size_bytes(memory.get()), kBytes);
  std::memset(address.socket, 'x', sizeof address.socket);  // no terminating 0
  hbmwire_allocation* none = nullptr;
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_attach(context.get(), &address, kSecond, HBMWIRE_NO_FD, nullptr, &none, error);
  });
}

TEST(CRegistrationCache, FindsMemoryAgain) {
  const Context context = make_context();
  using Cache = std::unique_ptr<hbmwire_registration_cache, Freed<hbmwire_registration_cache_free>>;
  using Lease = std::unique_ptr<hbmwire_registration_lease, Freed<hbmwire_registration_lease_free>>;
  const char* const nics[] = {"emu1"};
  auto options = HBMWIRE_MADE(hbmwire_registration_options);
  options.whole = HBMWIRE_WHOLE_OFF;
  const auto cache = make<Cache>([&](auto** made, auto* error) {
    return hbmwire_registration_cache_create(context.get(), nics, 1, &options, made, error);
  });
  const auto by_settings = make<Cache>([&](auto** made, auto* error) {
    return hbmwire_registration_cache_create(context.get(), nullptr, 0, nullptr, made, error);
  });
  const Allocation memory = allocate(context, HBMWIRE_MEMORY_GAUDI);
  const std::uint64_t address = hbmwire_allocation_address(memory.get());
  for (int i = 0; i < 2; ++i) {
    const auto lease = make<Lease>([&](auto** made, auto* error) {
      return hbmwire_registration_cache_get(cache.get(), address, 64, kAll, made, error);
    });
    const hbmwire_slice slice = hbmwire_registration_lease_slice(lease.get());
    EXPECT_EQ(slice.length_bytes, 64U);
    EXPECT_EQ(slice.region, hbmwire_registration_lease_region(lease.get()));
    EXPECT_EQ(info_of(slice.region).path, HBMWIRE_PATH_ZERO_COPY);
    // The lease owns the region, so freeing it here does nothing.
    hbmwire_region_free(const_cast<hbmwire_region*>(slice.region));
    EXPECT_EQ(info_of(slice.region).path, HBMWIRE_PATH_ZERO_COPY);
  }
  auto told = HBMWIRE_MADE(hbmwire_registration_statistics);
  const auto look = [&] {
    good([&](auto* error) {
      return hbmwire_registration_cache_statistics(cache.get(), &told, error);
    });
  };
  look();
  EXPECT_EQ(told.hits, 1U);
  EXPECT_EQ(told.misses, 1U);
  EXPECT_EQ(told.regions, 1U);
  good([&](auto* error) {
    return hbmwire_registration_cache_drop(cache.get(), address, kBytes, error);
  });
  good([&](auto* error) { return hbmwire_registration_cache_drop_unused(cache.get(), error); });
  look();
  EXPECT_EQ(told.regions, 0U);
  auto range = HBMWIRE_MADE(hbmwire_dmabuf_range);
  good([&](auto* error) { return hbmwire_allocation_export_dmabuf(memory.get(), &range, error); });
  auto dmabuf = HBMWIRE_MADE(hbmwire_dmabuf);
  dmabuf.fd = range.fd;
  dmabuf.offset_bytes = range.offset_bytes;
  dmabuf.length_bytes = range.length_bytes;
  const auto lease = make<Lease>([&](auto** made, auto* error) {
    return hbmwire_registration_cache_get_dmabuf(cache.get(), &dmabuf, kAll, made, error);
  });
  ::close(range.fd);
  const char* const unknown[] = {"emu9"};
  hbmwire_registration_cache* none = nullptr;
  refused(HBMWIRE_NOT_FOUND, [&](auto* error) {
    return hbmwire_registration_cache_create(context.get(), unknown, 1, nullptr, &none, error);
  });
}

}  // namespace
}  // namespace hbmwire::c_test
