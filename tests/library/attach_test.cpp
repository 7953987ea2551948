// SPDX-License-Identifier: MIT
#include "hbmwire/attach.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/registration.hpp"

#include "attach_exporter.hpp"
#include "emulated_hooks.hpp"
#include "tests/support/few_descriptors.hpp"

// Two processes of one node; the second one gets the dma-buf of the first one.
namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using test::Exporter;
using test::filled;
using test::kAttachedBytes;
using test::soon;

/// A thread that answers the requests at a listener while this object lives.
class Answering {
 public:
  explicit Answering(const AttachListener& listener)
      : thread_([&listener, this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd fd{listener.fd(), POLLIN, 0};
            if (::poll(&fd, 1, 10) > 0 && !listener.progress()) ++failures_;
          }
        }) {}

  [[nodiscard]] int failures() const { return failures_; }

 private:
  std::atomic<int> failures_{0};
  std::jthread thread_;
};

Fd make_memfd() {
  Fd file(::memfd_create("attach_test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(file.get(), kAttachedBytes), 0);
  return file;
}

class AttachToMemory : public testing::TestWithParam<MemoryType> {};

TEST_P(AttachToMemory, TheOtherProcessSeesRdmaWrites) {
  const Exporter exporter(GetParam());
  const Context context = *Context::create();
  const auto attached = attach(context, exporter.address(), soon());
  ASSERT_TRUE(attached) << describe(attached.error());
  EXPECT_EQ(attached->type, GetParam());
  EXPECT_EQ(attached->exporter_address, exporter.memory_address());
  EXPECT_NE(attached->exporter_generation, 0U);
  EXPECT_TRUE(attached->writable);
  EXPECT_EQ(attached->memory.size_bytes(), kAttachedBytes);
  const auto nic = Nic::open("emu1");
  ASSERT_TRUE(nic) << describe(nic.error());
  auto buffer = Buffer::create(attached->memory, *nic, Access::remote_write);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  EXPECT_EQ(buffer->region().path(), Path::zero_copy);
  EXPECT_EQ(buffer->copy_path(), "NIC loopback") << "no CPU reaches the memory";
  std::vector<std::byte> got(kAttachedBytes);
  ASSERT_TRUE(buffer->read(0, got, soon()));
  EXPECT_EQ(got, filled(kAttachedBytes, 1));
  ASSERT_TRUE(buffer->write(0, filled(kAttachedBytes, 2), soon()));
  EXPECT_EQ(exporter.contents(), 2);
}

INSTANTIATE_TEST_SUITE_P(All, AttachToMemory,
                         testing::Values(MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST(Attach, AnotherSecretFindsNothing) {
  const Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  for (const std::size_t byte : {0U, 7U, 15U}) {
    AttachAddress wrong = exporter.address();
    wrong.secret.at(byte) ^= 1U;
    const auto attached = attach(context, wrong, soon());
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().code, Errc::not_found) << describe(attached.error());
    EXPECT_EQ(attached.error().hint, Hint::attach_withdrawn);
  }
  EXPECT_TRUE(attach(context, exporter.address(), soon()));
}

TEST(Attach, WithdrawnMemoryIsGivenToNoOtherProcess) {
  const Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  const auto before = attach(context, exporter.address(), soon());
  ASSERT_TRUE(before) << describe(before.error());
  exporter.withdraw();
  const auto after = attach(context, exporter.address(), soon());
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Errc::not_found) << describe(after.error());
  auto buffer = Buffer::create(before->memory, *Nic::open(), Access::remote_write);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  ASSERT_TRUE(buffer->write(0, filled(kAttachedBytes, 3), soon()));
  EXPECT_EQ(exporter.contents(), 3) << "a process that has attached keeps the memory";
}

/// The memory stays for the process that attached, when its registration there goes, and when the
/// exporter ends.
TEST(Attach, TheMemoryOutlivesItsExporter) {
  Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  const auto attached = attach(context, exporter.address(), soon());
  ASSERT_TRUE(attached) << describe(attached.error());
  auto buffer = Buffer::create(attached->memory, *Nic::open(), Access::remote_write);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  std::vector<std::byte> got(kAttachedBytes);
  exporter.free_memory();
  ASSERT_TRUE(buffer->write(0, filled(kAttachedBytes, 4), soon()));
  ASSERT_TRUE(buffer->read(0, got, soon()));
  EXPECT_EQ(got, filled(kAttachedBytes, 4));
  exporter.kill();
  ASSERT_TRUE(buffer->read(0, got, soon()));
  EXPECT_EQ(got, filled(kAttachedBytes, 4));
}

TEST(Attach, ADeadExporterIsToldAtOnce) {
  Exporter exporter(MemoryType::gaudi);
  const AttachAddress address = exporter.address();
  exporter.kill();
  const auto attached = attach(*Context::create(), address, {Deadline::after(60s), -1});
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Errc::peer_failed);
  EXPECT_EQ(attached.error().hint, Hint::attach_gone) << describe(attached.error());
}

TEST(Attach, AnExporterThatDiesDuringTheWaitEndsIt) {
  Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  ASSERT_EQ(::kill(exporter.pid(), SIGSTOP), 0);
  const int descriptors = test::open_descriptors();
  Result<AttachedMemory> attached = tl::make_unexpected(Error{});
  {
    const std::jthread thread([&] {
      attached = attach(context, exporter.address(), {Deadline::after(60s), -1});
    });
    // One more descriptor: the socket of attach() exists, and is connected. Whether attach() has
    // already sent its request makes no difference.
    while (test::open_descriptors() == descriptors) std::this_thread::yield();
    exporter.kill();
  }
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Errc::peer_failed) << describe(attached.error());
  EXPECT_EQ(attached.error().hint, Hint::attach_gone);
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST(Attach, AnExporterThatIsStoppedIsNotWaitedForLongerThanAsked) {
  const Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  ASSERT_EQ(::kill(exporter.pid(), SIGSTOP), 0);
  const int descriptors = test::open_descriptors();
  const auto attached = attach(context, exporter.address(), {Deadline::after(50ms), -1});
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Errc::timed_out);
  EXPECT_EQ(attached.error().hint, Hint::attach_silent) << describe(attached.error());

  const Fd cancel(::eventfd(1, EFD_CLOEXEC));
  const auto cancelled = attach(context, exporter.address(), {Deadline::after(60s), cancel.get()});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::cancelled) << describe(cancelled.error());
  EXPECT_EQ(test::open_descriptors(), descriptors + 1) << "the eventfd, and nothing else";

  ASSERT_EQ(::kill(exporter.pid(), SIGCONT), 0);
  const auto later = attach(context, exporter.address(), soon());
  EXPECT_TRUE(later) << describe(later.error());
}

TEST(Attach, AnAddressThatCanNotBeIsRefused) {
  const Context context = *Context::create();
  for (const std::string& name : {std::string(), std::string(101, 'x')}) {
    const auto attached = attach(context, {.socket = name, .secret = {}}, soon());
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().code, Errc::invalid_argument) << describe(attached.error());
  }
  const auto nobody = attach(context, {.socket = std::string(100, 'x'), .secret = {}}, soon());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().hint, Hint::attach_gone) << describe(nobody.error());
}

TEST(Attach, AnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Exporter exporter(MemoryType::gaudi);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(12'345, 12'345, 12'345) != 0) ::_exit(77);  // a skip
    const auto attached = attach(*Context::create(), exporter.address(), soon());
    if (attached) ::_exit(1);
    ::_exit(attached.error().code == Errc::permission_denied &&
                    attached.error().hint == Hint::attach_other_user
                ? 0
                : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this user namespace has no other user";
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(attach(*Context::create(), exporter.address(), soon()));
}

TEST(Attach, ThousandsOfAttachmentsLeaveNothingBehind) {
  const Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  const auto once = [&](bool registered) {
    const auto attached = attach(context, exporter.address(), soon());
    ASSERT_TRUE(attached) << describe(attached.error());
    if (registered) {
      ASSERT_TRUE(nic->register_memory(attached->memory, Access::remote_write));
    }
  };
  for (int i = 0; i < 10; ++i) once(true);
  const int ours = test::open_descriptors();
  const int theirs = exporter.descriptors();
  const int mappings = test::file_mappings();
  const std::string objects = test::live_nic_objects();
  for (int i = 0; i < 3000 && !testing::Test::HasFatalFailure(); ++i) once(i % 10 == 0);
  EXPECT_EQ(test::open_descriptors(), ours);
  EXPECT_EQ(exporter.descriptors(), theirs);
  EXPECT_LE(test::file_mappings(), mappings + 2);  // the allocator may map a little
  EXPECT_EQ(test::live_nic_objects(), objects);
}

TEST(AttachPublish, HostMemoryIsRefused) {
  const Context context = *Context::create();
  const auto memory = (*context.open(MemoryType::host))->allocate(4096);
  const auto region = Nic::open()->register_memory(*memory, Access::remote_write);
  ASSERT_TRUE(region) << describe(region.error());
  const auto listener = AttachListener::create();
  ASSERT_TRUE(listener) << describe(listener.error());
  const auto publication = listener->publish(*region);
  ASSERT_FALSE(publication);
  EXPECT_EQ(publication.error().code, Errc::not_supported);
  EXPECT_EQ(publication.error().hint, Hint::attach_no_dmabuf);
  EXPECT_NE(describe(publication.error()).find("host memory has no dma-buf"), std::string::npos)
      << describe(publication.error());
}

/// Memory that this process has allocated and publishes.
class AttachInProcess : public testing::Test {
 protected:
  Result<Region> register_memfd(int fd, Access access) {
    HBMWIRE_TRY_ASSIGN(const Allocation memory,
                       context_.import_dmabuf({.fd = fd, .length_bytes = kAttachedBytes}));
    return nic_.register_memory(memory, access);
  }

  Context context_ = *Context::create();
  Nic nic_ = *Nic::open();
  AttachListener listener_ = *AttachListener::create();
};

TEST_F(AttachInProcess, AReadOnlyDescriptorStaysReadOnly) {
  const Fd file = make_memfd();
  const Fd reading(
      ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const auto region = register_memfd(reading.get(), Access::none);
  ASSERT_TRUE(region) << describe(region.error());
  const auto publication = listener_.publish(*region);
  ASSERT_TRUE(publication) << describe(publication.error());
  const Answering answering(listener_);
  const auto attached = attach(context_, publication->address(), soon());
  ASSERT_TRUE(attached) << describe(attached.error());
  EXPECT_FALSE(attached->writable);
  EXPECT_TRUE(nic_.register_memory(attached->memory, Access::remote_read));
  const auto written = nic_.register_memory(attached->memory, Access::remote_write);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().hint, Hint::dmabuf_read_only) << describe(written.error());
  EXPECT_FALSE(attached->memory.domain().copy_in(attached->memory.address(), filled(1, 1), soon()));
}

TEST_F(AttachInProcess, MemoryThatPeersMayNotWriteIsReadOnly) {
  const Fd file = make_memfd();
  const auto region = register_memfd(file.get(), Access::local_write | Access::remote_read);
  ASSERT_TRUE(region) << describe(region.error());
  const auto publication = listener_.publish(*region);
  ASSERT_TRUE(publication) << describe(publication.error());
  const Answering answering(listener_);
  const auto attached = attach(context_, publication->address(), soon());
  ASSERT_TRUE(attached) << describe(attached.error());
  EXPECT_FALSE(attached->writable);
  EXPECT_TRUE(nic_.register_memory(attached->memory, Access::remote_read));
  EXPECT_FALSE(nic_.register_memory(attached->memory, Access::remote_write));
}

TEST_F(AttachInProcess, AnImportMayBeReadOnly) {
  const Fd file = make_memfd();
  const auto memory = context_.import_dmabuf(
      {.fd = file.get(), .length_bytes = kAttachedBytes, .mapping = nullptr, .read_only = true});
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_TRUE(nic_.register_memory(*memory, Access::remote_read));
  for (const Access access : {Access::local_write, Access::remote_write}) {
    const auto region = nic_.register_memory(*memory, access);
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error().hint, Hint::dmabuf_read_only) << describe(region.error());
  }
  EXPECT_FALSE(memory->domain().copy_in(memory->address(), filled(1, 1), soon()));
  EXPECT_TRUE(register_memfd(file.get(), Access::remote_write)) << "another import of the same";
}

TEST_F(AttachInProcess, ACacheKeepsReadOnlyImportsApart) {
  const Fd file = make_memfd();
  const auto cache = RegistrationCache::create(context_, {nic_});
  ASSERT_TRUE(cache) << describe(cache.error());
  DmabufMemory memory{.fd = file.get(), .length_bytes = kAttachedBytes};
  EXPECT_TRUE(cache->get(memory, Access::remote_write));
  memory.read_only = true;
  const auto lease = cache->get(memory, Access::remote_write);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().hint, Hint::dmabuf_read_only) << describe(lease.error());
}

TEST_F(AttachInProcess, AChildLeavesTheListenerToItsParent) {
  const Fd file = make_memfd();
  const auto region = register_memfd(file.get(), Access::remote_write);
  ASSERT_TRUE(region) << describe(region.error());
  auto publication = listener_.publish(*region);
  ASSERT_TRUE(publication) << describe(publication.error());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto progress = listener_.progress();
    const bool refused = !progress && progress.error().code == Errc::not_supported;
    publication = tl::make_unexpected(Error{});
    listener_ = *AttachListener::create();
    ::_exit(refused && listener_.progress() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const Answering answering(listener_);
  const auto attached = attach(context_, publication->address(), soon());
  EXPECT_TRUE(attached) << describe(attached.error());
  EXPECT_EQ(answering.failures(), 0);
}

TEST_F(AttachInProcess, APublicationMayOutliveItsListener) {
  const Fd file = make_memfd();
  const auto region = register_memfd(file.get(), Access::remote_write);
  ASSERT_TRUE(region) << describe(region.error());
  auto publication = listener_.publish(*region);
  ASSERT_TRUE(publication) << describe(publication.error());
  const AttachAddress address = publication->address();
  listener_ = *AttachListener::create();
  const auto attached = attach(context_, address, soon());
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().hint, Hint::attach_gone) << describe(attached.error());
}

TEST_F(AttachInProcess, ThreadsPublishAttachAndWithdraw) {
  const Fd file = make_memfd();
  const auto region = register_memfd(file.get(), Access::remote_write);
  ASSERT_TRUE(region) << describe(region.error());
  const int descriptors = test::open_descriptors();
  {
    const Answering one(listener_);
    const Answering two(listener_);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 100; ++round) {
          auto publication = listener_.publish(*region);
          ASSERT_TRUE(publication) << describe(publication.error());
          const AttachAddress address = publication->address();
          EXPECT_TRUE(attach(context_, address, soon()));
          publication = tl::make_unexpected(Error{});
          const auto gone = attach(context_, address, soon());
          ASSERT_FALSE(gone);
          EXPECT_EQ(gone.error().code, Errc::not_found) << describe(gone.error());
        }
      });
    }
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

/// Runs `body` with room for 0, 1, ... more descriptors until it succeeds. Everything is released
/// each time.
template <class Body>
int sweep_descriptors(Body body) {
  const int before = test::open_descriptors();
  for (int room = 0; room < 20; ++room) {
    const auto result = [&] {
      const hbmwire::test::FewDescriptors few(room);
      return body();
    }();
    EXPECT_EQ(test::open_descriptors(), before) << "with room for " << room;
    if (result) return room;
    EXPECT_EQ(result.error().code, Errc::exhausted) << describe(result.error());
    EXPECT_EQ(result.error().hint, Hint::descriptor_limit) << describe(result.error());
  }
  ADD_FAILURE() << "it failed with room for 20";
  return -1;
}

TEST(AttachSweep, EachShortageOfDescriptorsIsAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at objects through a pipe, which takes two";
#endif
  const Exporter exporter(MemoryType::gaudi);
  const Context context = *Context::create();
  EXPECT_EQ(sweep_descriptors([&]() -> Result<void> {
              HBMWIRE_TRY(attach(context, exporter.address(), soon()));
              return {};
            }),
            2)
      << "the socket and the received dma-buf, then the dma-buf and our copy of it";
  EXPECT_EQ(sweep_descriptors([]() -> Result<void> {
              HBMWIRE_TRY(AttachListener::create());
              return {};
            }),
            4)
      << "the epoll set, the timer, the socket, and one in reserve";
}

Result<void> life_of_an_attachment(const Context& context) {
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(
      const auto card,
      context.open(MemoryType::gaudi, {.device = "1", .owner = MemoryOptions::Owner::hl_thunk}));
  HBMWIRE_TRY_ASSIGN(const Allocation memory, card->allocate(kAttachedBytes));
  HBMWIRE_TRY_ASSIGN(const Region region, nic.register_memory(memory, Access::remote_write));
  HBMWIRE_TRY_ASSIGN(const AttachListener listener, AttachListener::create());
  HBMWIRE_TRY_ASSIGN(const AttachPublication publication, listener.publish(region));
  const Answering answering(listener);
  HBMWIRE_TRY_ASSIGN(const AttachedMemory attached, attach(context, publication.address(), soon()));
  HBMWIRE_TRY(nic.register_memory(attached.memory, Access::remote_write));
  return {};
}

TEST(AttachSweep, EachFailureLeavesNothingBehind) {
  const Context context = *Context::create();
  for (int i = 0; i < 5; ++i) {
    const auto result = life_of_an_attachment(context);
    ASSERT_TRUE(result) << describe(result.error());
  }
  const int descriptors = test::open_descriptors();
  // If a process that owned a card is killed, the card keeps its objects until it is opened again.
  const std::string objects = test::live_objects();
  for (const std::string library : {"gaudi", "nic"}) {
    SCOPED_TRACE(library);
    int failures = 0;
    for (long n = 0;; ++n) {
      ASSERT_LT(n, 1000) << "the sweep did not end";
      test::fail_nth_call(library, n, EIO);
      const auto result = life_of_an_attachment(context);
      const long counted = test::fail_nth_call(library, -1, 0);
      EXPECT_EQ(test::live_objects(), objects) << "after call " << n << " failed";
      EXPECT_EQ(test::open_descriptors(), descriptors) << "after call " << n << " failed";
      if (!result) ++failures;
      if (counted <= n) {
        EXPECT_TRUE(result) << describe(result.error());
        break;
      }
    }
    EXPECT_GE(failures, 2) << "the sweep met fewer calls than the life has";
  }
}

}  // namespace
}  // namespace hbmwire
