// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "emulated_hooks.hpp"
#include "helpers.hpp"

// Actions that a child by fork(2) may do with its parent's NICs, and the effects that they must not
// have there.
namespace hbmwire {
namespace {

using test::kAll;
using test::soon;

constexpr std::uint64_t kSize = 1 << 20;
// More than half a page of a Gaudi: such memory has a block of its own, which goes back to the
// driver with it.
constexpr std::uint64_t kBlockSize = std::uint64_t{600} << 20U;

/// Whether `work` passed in a child, and the library logged nothing there.
[[nodiscard]] bool passes_in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    set_log_sink([](LogLevel /*level*/, std::string_view line) {
      ADD_FAILURE() << "in the child: " << line;
    });
    work();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void expect_inherited(const std::optional<Error>& error, Stage stage) {
  ASSERT_TRUE(error) << to_string(stage) << ": nothing failed";
  EXPECT_EQ(error->code, Errc::not_supported) << describe(*error);
  EXPECT_EQ(error->hint, Hint::forked_nic) << describe(*error);
  EXPECT_EQ(error->stage, stage) << describe(*error);
}

template <class T>
std::optional<Error> error_of(const Result<T>& result) {
  if (result) return std::nullopt;
  return result.error();
}

struct Kind {
  const char* name;
  MemoryType type;
  MemoryOptions::Owner owner = MemoryOptions::Owner::automatic;
  std::uint64_t size_bytes = kSize;
};

/// A NIC, a connection to itself, and memory.
class Fork : public testing::TestWithParam<Kind> {
 protected:
  struct Objects {
    Context context = *Context::create();
    Nic nic = *Nic::open();
    std::shared_ptr<MemoryDomain> domain =
        *context.open(GetParam().type, {.device = {}, .owner = GetParam().owner});
    std::optional<Buffer> buffer = *Buffer::create(domain, nic, GetParam().size_bytes, kAll);
    std::optional<Connection> connection = *Connection::create(nic, {});
  };

  Fork() { EXPECT_TRUE(objects_->connection->connect(objects_->connection->local())); }

  [[nodiscard]] const Region& region() const { return objects_->buffer->region(); }

  /// Writes 100 bytes within the region through the connection, and compares them.
  void expect_works() {
    const std::vector<std::byte> bytes(100, std::byte{7});
    ASSERT_TRUE(objects_->buffer->write(0, bytes, soon()));
    RemoteMemory target = region().remote();
    target.address += kSize - 100;
    ASSERT_TRUE(objects_->connection->post_write(1, {&region(), 0, 100}, target));
    const auto done = objects_->connection->wait(soon());
    ASSERT_TRUE(done && *done) << describe(done.error());
    std::vector<std::byte> got(100);
    ASSERT_TRUE(objects_->buffer->read(kSize - 100, got, soon()));
    EXPECT_EQ(got, bytes);
  }

  std::optional<Objects> objects_{std::in_place};
};

TEST_P(Fork, ObjectsThatTheChildDropsStayWithTheParent) {
  const std::string held = test::live_objects();
  EXPECT_TRUE(passes_in_child([&] { objects_.reset(); }));
  EXPECT_EQ(test::live_objects(), held);
  expect_works();
  objects_.reset();
  EXPECT_EQ(test::live_objects(), "") << "and the parent can give it back";
}

TEST_P(Fork, TheChildHasNoUseOfTheParentsNic) {
  EXPECT_TRUE(passes_in_child([&] {
    Connection& connection = *objects_->connection;
    const Slice slice{&region(), 0, 10};
    const RemoteMemory target = region().remote();
    expect_inherited(error_of(connection.post_send(1, slice)), Stage::post);
    expect_inherited(error_of(connection.post_receive(1, slice)), Stage::post);
    expect_inherited(error_of(connection.post_receive(1, {})), Stage::post);
    expect_inherited(error_of(connection.post_write(1, slice, target)), Stage::post);
    expect_inherited(error_of(connection.post_read(1, slice, target)), Stage::post);
    expect_inherited(error_of(connection.poll()), Stage::complete);
    expect_inherited(error_of(connection.wait(soon())), Stage::complete);
    expect_inherited(error_of(connection.connect(connection.local())), Stage::connect);
    expect_inherited(error_of(Connection::create(objects_->nic, {})), Stage::open);
    expect_inherited(error_of(objects_->nic.register_memory(region().allocation(), kAll)),
                     Stage::register_memory);
  }));
  expect_works();
}

INSTANTIATE_TEST_SUITE_P(
    Memory, Fork,
    testing::Values(Kind{"Host", MemoryType::host},
                    Kind{"HlThunk", MemoryType::gaudi, MemoryOptions::Owner::hl_thunk, kBlockSize},
                    Kind{"Synapse", MemoryType::gaudi, MemoryOptions::Owner::synapse},
                    Kind{"Cuda", MemoryType::cuda}, Kind{"Rocm", MemoryType::rocm}),
    [](const auto& test) { return test.param.name; });

TEST(ForkedChild, IsToldThatCudaIsItsParents) {
  const auto parents = *Context::create();
  ASSERT_FALSE(parents.memory().at(static_cast<std::size_t>(MemoryType::cuda)).missing);
  EXPECT_TRUE(passes_in_child([] {
    const auto context = *Context::create();
    const auto& missing = context.memory().at(static_cast<std::size_t>(MemoryType::cuda)).missing;
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->hint, Hint::cuda_after_fork) << describe(*missing);
  }));
}

TEST(ForkedChild, OpensTheNicAnew) {
  const Nic parents = *Nic::open();
  const auto host = *Context::create()->open(MemoryType::host);
  const auto memory = *host->allocate(8192);
  EXPECT_TRUE(passes_in_child([&] {
    const auto nic = Nic::open();
    ASSERT_TRUE(nic) << describe(nic.error());
    const auto region = nic->register_memory(memory, kAll);
    ASSERT_TRUE(region) << describe(region.error());
    auto connection = Connection::create(*nic, {});
    ASSERT_TRUE(connection && connection->connect(connection->local()));
    ASSERT_TRUE(connection->post_read(1, {&*region, 0, 4096}, region->remote()));
    const auto done = connection->wait(soon());
    EXPECT_TRUE(done && *done) << describe(done.error());
  }));
}

}  // namespace
}  // namespace hbmwire
