// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"

// Each option at 0, at 1, and at its greatest value is accepted or refused. Nothing is thrown.
namespace hbmwire::test {
namespace {

constexpr std::uint32_t kGreatest = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kGreatest64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::array kNumbers{std::uint32_t{0}, std::uint32_t{1}, std::uint32_t{1} << 20U,
                              std::uint32_t{1} << 31U, kGreatest};
constexpr std::array kSizes{std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32U,
                            std::uint64_t{1} << 63U, kGreatest64};

TEST(Defaults, AreThoseOfTheManual) {
  const EndpointOptions options;
  EXPECT_EQ(options.send_depth, 128U);
  EXPECT_EQ(options.receive_depth, 64U);
  EXPECT_EQ(options.eager_bytes, 8192U);
  EXPECT_EQ(options.unexpected_bytes, 256U << 10U);
  EXPECT_EQ(options.peer_timeout, 2s);
  EXPECT_EQ(options.operation_timeout, 30s);
  EXPECT_TRUE(options.pre_shared_key.empty());
  EXPECT_TRUE(options.hello.empty());
  EXPECT_EQ(options.paths, PathPolicy());
  EXPECT_EQ(options.link, LinkOptions());
  EXPECT_EQ(WorkerOptions().max_transfers, 4096U);
  EXPECT_EQ(WorkerOptions().eager_bytes, 8192U);
  EXPECT_EQ(WorkerOptions().receive_pool_bytes, 8U << 20U);
  EXPECT_EQ(WorkerOptions().unexpected_bytes, 64U << 20U);
}

class Options : public ::testing::Test {
 protected:
  /// Expects that `call()` returns a value, or an Error from which a program can decide.
  template <class Call>
  static auto taken_or_refused(const std::string& what, const Call& call) {
    SCOPED_TRACE(what);
    using Given = decltype(call());
    try {
      Given given = call();
      if (!given) {
        const Error& error = given.error();
        EXPECT_FALSE(describe(error).empty());
        EXPECT_TRUE(error.code == Errc::invalid_argument || error.code == Errc::exhausted ||
                    error.code == Errc::not_found || error.code == Errc::not_supported ||
                    error.code == Errc::system)
            << describe(error);
      }
      return given;
    } catch (const std::exception& thrown) {
      ADD_FAILURE() << thrown.what() << " left it";
      return Given(tl::make_unexpected(Error{}));
    }
  }

  Context context = value(Context::create());
  Worker worker = value(Worker::create(context, {.max_transfers = 8}));
};

TEST_F(Options, Workers) {
  for (const std::uint32_t number : kNumbers) {
    const auto made = taken_or_refused("max_transfers " + std::to_string(number), [&] {
      return Worker::create(context, {.max_transfers = number});
    });
    EXPECT_EQ(made.has_value(), number >= 1 && number <= 1U << 20U) << number;
    if (!made) {
      EXPECT_EQ(made.error().code, Errc::invalid_argument);
    }
  }
}

TEST_F(Options, Endpoints) {
  for (const auto member : {&EndpointOptions::send_depth, &EndpointOptions::receive_depth,
                            &EndpointOptions::eager_bytes, &EndpointOptions::unexpected_bytes}) {
    for (const std::uint32_t number : kNumbers) {
      EndpointOptions options{.send_depth = 8, .receive_depth = 8, .eager_bytes = 64};
      options.*member = number;
      taken_or_refused(std::to_string(number),
                       [&] { return EndpointInvitation::create(worker, options); });
    }
  }
  for (const std::size_t bytes : {1UL, 15UL, 16UL, 4096UL, 4097UL, 1UL << 20U}) {
    const EndpointOptions options{.pre_shared_key = std::vector<std::byte>(bytes)};
    taken_or_refused("key", [&] { return EndpointInvitation::create(worker, options); });
  }
  for (const int path : {0, 7, 8, 255}) {
    EndpointOptions options;
    options.paths.allow = {static_cast<Path>(path)};
    taken_or_refused("path", [&] { return EndpointInvitation::create(worker, options); });
    options.paths = {.require = static_cast<Path>(path)};
    taken_or_refused("path", [&] { return EndpointInvitation::create(worker, options); });
  }
}

TEST_F(Options, Listeners) {
  for (const std::uint32_t number : kNumbers) {
    const auto made = taken_or_refused("max_handshakes", [&] {
      return Listener::create(worker, {.address = "127.0.0.1", .max_handshakes = number});
    });
    EXPECT_EQ(made.has_value(), number != 0) << number;
  }
  for (const std::size_t length : {1UL, 255UL, 256UL, 1UL << 16U}) {
    taken_or_refused(
        "address", [&] { return Listener::create(worker, {.address = std::string(length, 'a')}); });
  }
}

TEST_F(Options, Connections) {
  const Nic nic = value(context.open_nics()).front();
  for (const std::uint32_t send : kNumbers) {
    for (const std::uint32_t receive : kNumbers) {
      const auto made = taken_or_refused(
          std::to_string(send) + ", " + std::to_string(receive),
          [&] { return Connection::create(nic, {.send_depth = send, .receive_depth = receive}); });
      // The other numbers are beyond the NIC's limits.
      EXPECT_EQ(made.has_value(), send <= 1 && receive <= 1 && send + receive != 0)
          << send << ", " << receive;
    }
  }
}

TEST_F(Options, RegistrationCaches) {
  const auto nics = value(context.open_nics());
  const Memory memory(context, MemoryType::host, 4096);
  for (const auto member : {&RegistrationOptions::max_regions, &RegistrationOptions::max_bytes,
                            &RegistrationOptions::max_dmabufs}) {
    for (const std::uint64_t number : kSizes) {
      RegistrationOptions options;
      options.*member = number;
      const auto cache = taken_or_refused(
          "budget", [&] { return RegistrationCache::create(context, nics, options); });
      ASSERT_TRUE(cache);
      EXPECT_TRUE(cache->get(memory.region().address(), 64, kAll));
    }
  }
  for (const double ratio : {-1.0, 0.0, 1.0, 2.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    RegistrationOptions options;
    options.whole_ratio = ratio;
    const auto cache = taken_or_refused(
        "ratio", [&] { return RegistrationCache::create(context, nics, options); });
    EXPECT_EQ(cache.has_value(), ratio >= 0 && ratio <= 1);
  }
}

TEST_F(Options, Memory) {
  for (const MemoryType type : kMemoryTypes) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kGreatest64})
      taken_or_refused("size", [&] { return context.allocate(type, size); });
    for (const std::string& device : {std::string("-1"), std::string("99999999999999999999"),
                                      std::string(1 << 16, 'x'), std::string("0000:ff:1f.7")})
      EXPECT_FALSE(
          taken_or_refused("device", [&] { return context.open(type, {.device = device}); }));
  }
  taken_or_refused("type", [&] { return context.open(static_cast<MemoryType>(200)); });
  for (const int node :
       {std::numeric_limits<int>::min(), -2, 1023, 1024, std::numeric_limits<int>::max()}) {
    taken_or_refused("node", [&] {
      return context.allocate(MemoryType::host, 4096, {.device = {}, .host = {.numa_node = node}});
    });
  }
  // Options for another type of memory are refused rather than ignored.
  using Owner = MemoryOptions::Owner;
  for (const MemoryType type : {MemoryType::host, MemoryType::cuda, MemoryType::rocm}) {
    const auto made = taken_or_refused(
        "owner", [&] { return context.open(type, {.device = {}, .owner = Owner::hl_thunk}); });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::invalid_argument);
  }
  for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    const auto made = taken_or_refused(
        "pages", [&] { return context.open(type, {.device = {}, .host = {.shared = true}}); });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::invalid_argument);
  }
}

TEST_F(Options, ImportedMemory) {
  for (const std::uint64_t number : kSizes) {
    for (const int fd : {-1, 0, std::numeric_limits<int>::max()}) {
      const GaudiMemory adopted{.device_fd = fd, .base_address = number, .size_bytes = number};
      taken_or_refused("adopt", [&] { return context.adopt(adopted); });
      const DmabufMemory imported{.fd = fd, .offset_bytes = number, .length_bytes = number};
      taken_or_refused("import", [&] { return context.import_dmabuf(imported); });
    }
    taken_or_refused("borrow", [&] { return context.borrow(number, number); });
  }
}

TEST_F(Options, MemoryKeys) {
  const Memory memory(context, MemoryType::host, 4096);
  for (const std::uint64_t offset : kSizes) {
    for (const std::uint64_t length : kSizes) {
      const MemoryKeyOptions options{.offset_bytes = offset, .length_bytes = length};
      const auto key =
          taken_or_refused("range", [&] { return MemoryKey::pack(memory.region(), options); });
      EXPECT_EQ(key.has_value(), offset <= 1 && length == 1) << offset << ", " << length;
    }
  }
  for (const int access : {0, 1, 16, 255}) {
    const MemoryKeyOptions options{.access = static_cast<Access>(access)};
    EXPECT_FALSE(
        taken_or_refused("access", [&] { return MemoryKey::pack(memory.region(), options); }));
  }
}

TEST_F(Options, Contexts) {
  for (const std::string& nic :
       {std::string("none"), std::string("emu0:0"), std::string("emu0:256"),
        std::string(1 << 16, 'x'), std::string(":"), std::string("emu9")}) {
    const auto made =
        taken_or_refused("nic", [&] { return Context::create({.memory = {}, .nics = {nic}}); });
    if (made) {
      EXPECT_FALSE(taken_or_refused("nics", [&] { return made->open_nics(); }));
    }
  }
  const auto both = value(Context::create({.memory = {}, .nics = {"none", "emu0"}}));
  EXPECT_FALSE(taken_or_refused("nics", [&] { return both.open_nics(); }));
  taken_or_refused("memory",
                   [&] { return Context::create({.memory = {static_cast<MemoryType>(200)}}); });
}

}  // namespace
}  // namespace hbmwire::test
