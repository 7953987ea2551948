// SPDX-License-Identifier: MIT
#include "ends.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"

namespace hbmwire::test {

Memory::Memory(const Context& context, MemoryType type, std::uint64_t size_bytes, Access access)
    : region_(value(context.register_memory(value(context.allocate(type, size_bytes)), access))),
      // Buffers write to the memory, for which the region's own registration may have no access.
      buffer_(value(region_.nics().empty()
                        ? Buffer::create(region_)
                        : Buffer::create(region_.allocation(), value(context.open_nics()).front(),
                                         Access::local_write))) {}

void Memory::fill(unsigned seed) { set(pattern(region_.size_bytes(), seed)); }

void Memory::set(const std::vector<std::byte>& bytes) {
  good(buffer_.write(0, bytes, within(60s)));
}

std::vector<std::byte> Memory::contents() {
  std::vector<std::byte> bytes(region_.size_bytes());
  good(buffer_.read(0, bytes, within(60s)));
  return bytes;
}

Ends::Ends(EndpointOptions options, WorkerOptions worker_options, ContextOptions context_options)
    : context(value(Context::create(context_options))),
      a_worker(value(Worker::create(context, worker_options))),
      b_worker(value(Worker::create(context, worker_options))),
      listener(value(
          Listener::create(b_worker, {.address = "127.0.0.1", .port = 0, .endpoint = options}))) {
  std::thread accepting([&] { b.emplace(value(listener.accept(within(20s)))); });
  a.emplace(value(Endpoint::connect(a_worker, "127.0.0.1:" + std::to_string(listener.port()),
                                    within(20s), options)));
  accepting.join();
}

void finish(Ends& ends, Transfer& transfer) {
  ends.drive([&] { return transfer.done(); });
  const auto over = transfer.poll();
  EXPECT_TRUE(over) << (over ? "" : describe(over.error()));
}

std::pair<Endpoint, Endpoint> invite(const Worker& a_worker, const Worker& b_worker) {
  EndpointInvitation a = value(EndpointInvitation::create(a_worker));
  EndpointInvitation b = value(EndpointInvitation::create(b_worker));
  std::optional<Endpoint> b_end;
  std::thread other([&] { b_end = value(b.connect(a.bytes(), within(20s))); });
  Endpoint a_end = value(a.connect(b.bytes(), within(20s)));
  other.join();
  return {std::move(a_end), std::move(*b_end)};
}

void beside(Worker& worker, const std::function<void()>& work) {
  std::atomic<bool> over{false};
  std::thread thread([&] {
    work();
    over = true;
  });
  while (!over) worker.progress();
  thread.join();
}

std::vector<std::byte> key_of(unsigned seed) {
  std::vector<std::byte> key(32);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(seed + i);
  return key;
}

}  // namespace hbmwire::test
