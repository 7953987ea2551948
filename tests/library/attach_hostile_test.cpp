// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/attach.hpp"
#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"

#include "attach_exporter.hpp"
#include "emulated_hooks.hpp"
#include "wire/attach_messages.hpp"
#include "wire/fd_socket.hpp"
#include "wire/socket_io.hpp"

// Each end meets a peer that violates the protocol.
namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using test::Exporter;
using test::kAttachedBytes;
using test::soon;
using wire::AttachReply;
using wire::AttachRequest;

using Bytes = std::vector<std::byte>;

/// Sends bytes with any number of copies of a descriptor.
void send_fds(int socket, const Bytes& bytes, std::size_t count, int fd) {
  std::vector<int> fds(count, fd);
  std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * count));
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count != 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * count);
  }
  static_cast<void>(::sendmsg(socket, &message, MSG_NOSIGNAL));
}

/// The bytes until the other end closes, and the number of descriptors, which are closed.
struct Answer {
  Bytes bytes;
  std::size_t fds = 0;
};

Answer answer_from(int socket) {
  Answer answer;
  wire::ReceivedFds received;
  for (;;) {
    std::array<std::byte, 256> piece{};
    const auto came = wire::receive_with_fd(socket, piece, received);
    answer.fds = received.count;
    if (!came || (*came && **came == 0)) return answer;
    if (*came) {
      answer.bytes.insert(answer.bytes.end(), piece.begin(), piece.begin() + **came);
    } else if (!wire::wait_for(socket, POLLIN, soon(), "test", "test")) {
      ADD_FAILURE() << "the listener did not close the connection";
      return answer;
    }
  }
}

/// A client of a process that publishes memory.
class AttachClient : public testing::Test {
 protected:
  [[nodiscard]] Fd connect() const {
    auto socket = wire::connect_abstract(exporter_.address().socket, soon());
    if (socket) return std::move(*socket);
    ADD_FAILURE() << describe(socket.error());
    return {};
  }

  [[nodiscard]] Answer ask(const Bytes& request) const {
    const Fd socket = connect();
    send_fds(socket.get(), request, 0, -1);
    ::shutdown(socket.get(), SHUT_WR);
    return answer_from(socket.get());
  }

  void expect_that_it_serves() const {
    const auto attached = attach(context_, exporter_.address(), soon());
    EXPECT_TRUE(attached) << describe(attached.error());
  }

  Exporter exporter_{MemoryType::gaudi};
  Context context_ = *Context::create();
  Bytes request_ = wire::encode(AttachRequest{exporter_.address().secret});
  int theirs_ = exporter_.descriptors();
};

TEST_F(AttachClient, GetsOneDescriptorForOneRequest) {
  const Answer answer = ask(request_);
  EXPECT_EQ(answer.fds, 1U);
  EXPECT_EQ(answer.bytes.size(), wire::kAttachReplyBytes);
  EXPECT_EQ(exporter_.descriptors(), theirs_);
}

TEST_F(AttachClient, MaySendItsRequestInPieces) {
  const Fd socket = connect();
  for (const std::byte byte : request_) {
    send_fds(socket.get(), {byte}, 0, -1);
    static_cast<void>(exporter_.descriptors());  // its answer shows that its loop ran once more
  }
  EXPECT_EQ(answer_from(socket.get()).fds, 1U);
}

TEST_F(AttachClient, AClientThatSendsGarbageGetsNothing) {
  std::vector<Bytes> garbage{{}, Bytes(1), Bytes(wire::kAttachRequestBytes), Bytes(100'000)};
  garbage.push_back(Bytes(request_.begin(), request_.end() - 1));
  for (std::size_t i = 0; i < wire::kAttachHeaderBytes; ++i) {
    garbage.push_back(request_);
    garbage.back().at(i) ^= std::byte{0x80};
  }
  for (const Bytes& bytes : garbage) {
    EXPECT_EQ(ask(bytes).fds, 0U);
  }
  expect_that_it_serves();
  EXPECT_EQ(exporter_.descriptors(), theirs_);
}

TEST_F(AttachClient, AnotherVersionIsRefusedWithThatReason) {
  Bytes later = request_;
  later.at(9) = std::byte{2};
  const Answer answer = ask(later);
  EXPECT_EQ(answer.fds, 0U);
  EXPECT_EQ(answer.bytes, wire::encode(AttachReply{.status = AttachReply::Status::other_version}));
}

TEST_F(AttachClient, AClientThatSendsDescriptorsIsDropped) {
  for (const std::size_t count : {1U, 2U, 253U}) {
    const Fd socket = connect();
    send_fds(socket.get(), request_, count, socket.get());
    const Answer answer = answer_from(socket.get());
    EXPECT_EQ(answer.fds, 0U);
    EXPECT_TRUE(answer.bytes.empty());
    EXPECT_EQ(exporter_.descriptors(), theirs_) << "it holds what was sent";
  }
  expect_that_it_serves();
}

TEST_F(AttachClient, AnotherUserGetsNoDescriptor) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(12'345, 12'345, 12'345) != 0) ::_exit(77);  // a skip
    const Answer answer = ask(request_);
    const Bytes refusal = wire::encode(AttachReply{.status = AttachReply::Status::other_user});
    ::_exit(answer.fds == 0 && answer.bytes == refusal ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this user namespace has no other user";
  EXPECT_EQ(status, 0);
}

TEST_F(AttachClient, ASilentClientDelaysNoOtherAndIsDropped) {
  const Fd silent = connect();
  const Fd slow = connect();
  send_fds(slow.get(), {request_.begin(), request_.begin() + 20}, 0, -1);
  for (int i = 0; i < 10; ++i) expect_that_it_serves();
  EXPECT_EQ(exporter_.descriptors(), theirs_ + 2);  // both connections
  // From here on nothing but its own timer wakes the exporter, which then drops both.
  EXPECT_TRUE(answer_from(silent.get()).bytes.empty());
  EXPECT_TRUE(answer_from(slow.get()).bytes.empty());
  EXPECT_EQ(exporter_.descriptors(), theirs_);
}

TEST_F(AttachClient, OneMoreSilentClientReplacesTheOldest) {
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  expect_that_it_serves();
  EXPECT_LE(exporter_.descriptors(), theirs_ + 64);  // it keeps 64 connections at most
  EXPECT_TRUE(answer_from(silent.front().get()).bytes.empty());
  send_fds(silent.back().get(), request_, 0, -1);
  EXPECT_EQ(answer_from(silent.back().get()).fds, 1U);
  silent.clear();
  expect_that_it_serves();
  EXPECT_EQ(exporter_.descriptors(), theirs_);
}

/// An exporter whose answers the test chooses.
class AttachServer : public testing::Test {
 protected:
  using Behaviour = std::function<void(int socket)>;

  /// The result of attach() with such an exporter. Nothing that it sent may stay.
  Result<void> attach_to(const Behaviour& behaviour) {
    const std::string name = "hbmwire-test-" + std::to_string(::getpid());
    auto listener = wire::listen_abstract(name);
    if (!listener) return tl::make_unexpected(listener.error());
    std::jthread server([&] {
      pollfd fd{listener->get(), POLLIN, 0};
      ::poll(&fd, 1, 10'000);
      const Fd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      Bytes request(wire::kAttachRequestBytes);
      ::recv(socket.get(), request.data(), request.size(), MSG_WAITALL);
      behaviour(socket.get());
    });
    const auto attached = attach(context_, {.socket = name, .secret = {}}, soon());
    server.join();
    if (!attached) return tl::make_unexpected(attached.error());
    return {};
  }

  void expect_error(const Behaviour& behaviour, Errc code, const char* what) {
    SCOPED_TRACE(what);
    const int before = test::open_descriptors();
    const auto result = attach_to(behaviour);
    EXPECT_EQ(test::open_descriptors(), before);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << describe(result.error());
  }

  static Fd make_file() {
    Fd file(::memfd_create("attach_test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file.get(), kAttachedBytes), 0);
    return file;
  }

  Context context_ = *Context::create();
  Fd file_ = make_file();
  AttachReply reply_{.status = AttachReply::Status::granted,
                     .type = MemoryType::gaudi,
                     .writable = true,
                     .offset_bytes = 0,
                     .length_bytes = kAttachedBytes,
                     .base_address = 0x1000,
                     .generation = 1};
  Bytes granted_ = wire::encode(reply_);
};

TEST_F(AttachServer, MaySendItsReplyInPieces) {
  const auto result = attach_to([&](int socket) {
    send_fds(socket, {granted_.begin(), granted_.begin() + 1}, 1, file_.get());
    for (auto byte = granted_.begin() + 1; byte != granted_.end(); ++byte)
      send_fds(socket, {*byte}, 0, -1);
  });
  EXPECT_TRUE(result) << describe(result.error());
}

TEST_F(AttachServer, AReplyWithoutADescriptorIsAnError) {
  expect_error([&](int socket) { send_fds(socket, granted_, 0, -1); }, Errc::protocol, "none");
}

TEST_F(AttachServer, AReplyWithSeveralDescriptorsIsAnError) {
  for (const std::size_t count : {2U, 4U, 5U, 10U, 253U}) {
    expect_error([&](int socket) { send_fds(socket, granted_, count, file_.get()); },
                 Errc::protocol, std::to_string(count).c_str());
  }
  expect_error(
      [&](int socket) {
        for (const std::byte byte : granted_) send_fds(socket, {byte}, 1, file_.get());
      },
      Errc::protocol, "one with each byte");
}

TEST_F(AttachServer, ADescriptorBesideARefusalIsClosed) {
  const Bytes refusal = wire::encode(AttachReply{.status = AttachReply::Status::unknown});
  expect_error([&](int socket) { send_fds(socket, refusal, 1, file_.get()); }, Errc::not_found,
               "a refusal with a descriptor");
}

TEST_F(AttachServer, AServerThatClosesEarlyIsAnError) {
  expect_error([](int /*socket*/) {}, Errc::peer_failed, "at once");
  for (const std::ptrdiff_t length : {1, 15, 16, 17, 51}) {
    expect_error(
        [&](int socket) {
          send_fds(socket, {granted_.begin(), granted_.begin() + length}, 1, file_.get());
        },
        Errc::peer_failed, std::to_string(length).c_str());
  }
}

TEST_F(AttachServer, AReplyOfNonsenseIsAnError) {
  for (std::size_t i = 0; i < wire::kAttachHeaderBytes; ++i) {
    Bytes wrong = granted_;
    wrong.at(i) ^= std::byte{0x40};
    expect_error([&](int socket) { send_fds(socket, wrong, 1, file_.get()); }, Errc::protocol,
                 ("header " + std::to_string(i)).c_str());
  }
  const auto expect_refused = [&](const AttachReply& reply, Errc code, const char* what) {
    expect_error([&](int socket) { send_fds(socket, wire::encode(reply), 1, file_.get()); }, code,
                 what);
  };
  AttachReply wrong = reply_;
  wrong.length_bytes = 0;
  expect_refused(wrong, Errc::protocol, "no length");
  wrong.length_bytes = ~std::uint64_t{0};
  wrong.offset_bytes = 1;
  expect_refused(wrong, Errc::protocol, "around the end");
  wrong = reply_;
  wrong.base_address = ~std::uint64_t{0};
  expect_refused(wrong, Errc::protocol, "an address around the end");
  wrong = reply_;
  wrong.status = static_cast<AttachReply::Status>(4);
  expect_refused(wrong, Errc::protocol, "an unknown status");
  wrong = reply_;
  wrong.type = static_cast<MemoryType>(5);
  expect_refused(wrong, Errc::protocol, "an unknown type");
  wrong = reply_;
  wrong.offset_bytes = 1;
  expect_refused(wrong, Errc::invalid_argument, "longer than its dma-buf");
}

TEST_F(AttachServer, ADescriptorOfNoDmabufIsAnError) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Fd reader(pipe[0]);
  const Fd writer(pipe[1]);
  expect_error([&](int socket) { send_fds(socket, granted_, 1, reader.get()); },
               Errc::invalid_argument, "a pipe");
}

}  // namespace
}  // namespace hbmwire
