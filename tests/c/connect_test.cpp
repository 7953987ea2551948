// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "ends.hpp"

// Connections: their beginning, the facts that both ends learn of each other, and their end.
namespace hbmwire::c_test {
namespace {

[[nodiscard]] hbmwire_endpoint_info info_of(const Endpoint& endpoint) {
  auto info = HBMWIRE_MADE(hbmwire_endpoint_info);
  good([&](auto* error) { return hbmwire_endpoint_get_info(endpoint.get(), &info, error); });
  return info;
}

TEST(CConnect, EachEndKnowsTheOther) {
  auto options = HBMWIRE_MADE(hbmwire_endpoint_options);
  const std::string hello = "rank 3";
  options.hello = hello.data();
  options.hello_bytes = hello.size();
  const std::string key(32, 'k');
  options.pre_shared_key = key.data();
  options.pre_shared_key_bytes = key.size();
  const Ends ends(HBMWIRE_MEMORY_HOST, &options);
  const hbmwire_endpoint_info a = info_of(ends.a);
  const hbmwire_endpoint_info b = info_of(ends.b);
  EXPECT_EQ(std::string(static_cast<const char*>(b.hello), b.hello_bytes), hello);
  EXPECT_EQ(a.placement, HBMWIRE_PLACEMENT_SAME_PROCESS);
  EXPECT_EQ(a.phase, HBMWIRE_PHASE_READY);
  EXPECT_NE(a.id, b.id);
  EXPECT_EQ(a.peer, ends.address());
  auto nic = HBMWIRE_MADE(hbmwire_nic_info);
  good([&](auto* error) { return hbmwire_endpoint_nic(ends.a.get(), &nic, error); });
  EXPECT_STREQ(nic.name, "emu0");
  EXPECT_EQ(hbmwire_endpoint_failure(ends.a.get(), nullptr), HBMWIRE_OK);
  // A different key is refused.
  const std::string other(32, 'o');
  options.pre_shared_key = other.data();
  const auto pending = make<Pending>([&](auto** made, auto* error) {
    return hbmwire_endpoint_start_connect(ends.a_worker.get(), ends.address().c_str(), 5 * kSecond,
                                          &options, made, error);
  });
  hbmwire_transfer* const transfer = hbmwire_pending_endpoint_transfer(pending.get());
  ends.until([&] { return hbmwire_transfer_done(transfer); });
  hbmwire_endpoint* none = nullptr;
  refused(HBMWIRE_PERMISSION_DENIED,
          [&](auto* error) { return hbmwire_pending_endpoint_take(pending.get(), &none, error); });
}

TEST(CConnect, ConnectsAndAcceptsByTwoThreads) {
  const Ends ends;
  Endpoint accepted;
  std::thread accepting([&] {
    accepted = make<Endpoint>([&](auto** made, auto* error) {
      return hbmwire_listener_accept(ends.listener.get(), 10 * kSecond, HBMWIRE_NO_FD, made, error);
    });
    good([&](auto* error) {
      return hbmwire_endpoint_wait_closed(accepted.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
    });
  });
  const auto endpoint = make<Endpoint>([&](auto** made, auto* error) {
    return hbmwire_endpoint_connect(ends.a_worker.get(), ends.address().c_str(), 10 * kSecond,
                                    HBMWIRE_NO_FD, nullptr, made, error);
  });
  const auto remote = make<Remote>([&](auto** made, auto* error) {
    return hbmwire_endpoint_remote(endpoint.get(), "target", 10 * kSecond, HBMWIRE_NO_FD, made,
                                   error);
  });
  auto info = HBMWIRE_MADE(hbmwire_remote_region_info);
  good([&](auto* error) { return hbmwire_remote_region_get_info(remote.get(), &info, error); });
  EXPECT_EQ(info.length_bytes, kBytes);
  EXPECT_EQ(info.type, HBMWIRE_MEMORY_HOST);
  EXPECT_NE(info.access & HBMWIRE_ACCESS_REMOTE_WRITE, 0U);
  good([&](auto* error) {
    return hbmwire_endpoint_close(endpoint.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
  });
  accepting.join();
  EXPECT_EQ(hbmwire_endpoint_phase(endpoint.get()), HBMWIRE_PHASE_CLOSED);
  EXPECT_EQ(hbmwire_endpoint_phase(accepted.get()), HBMWIRE_PHASE_CLOSED);
}

TEST(CConnect, AClosedEndpointRefusesOperations) {
  const Ends ends;
  const Remote remote = ends.target();
  const auto closing = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_start_close(ends.a.get(), 10 * kSecond, made, error);
  });
  ends.finish(closing);
  const hbmwire_slice from = ends.here();
  const hbmwire_remote_slice to{remote.get(), 0, kBytes};
  hbmwire_transfer* none = nullptr;
  Failure failed;
  const hbmwire_status status =
      hbmwire_endpoint_put(ends.a.get(), &from, &to, nullptr, &none, &failed.error);
  EXPECT_TRUE(status == HBMWIRE_CANCELLED || status == HBMWIRE_PEER_FAILED) << failed.text();
  EXPECT_EQ(none, nullptr);
  // Connects again, and once more without waiting.
  Endpoint accepted;
  std::thread accepting([&] {
    accepted = make<Endpoint>([&](auto** made, auto* error) {
      return hbmwire_listener_accept(ends.listener.get(), 10 * kSecond, HBMWIRE_NO_FD, made, error);
    });
  });
  good([&](auto* error) {
    return hbmwire_endpoint_reconnect(ends.a.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
  });
  accepting.join();
  EXPECT_EQ(hbmwire_endpoint_phase(ends.a.get()), HBMWIRE_PHASE_READY);
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_endpoint_put(ends.a.get(), &from, &to, nullptr, &none, error);
  });
  hbmwire_pending_endpoint* no_pending = nullptr;
  refused(HBMWIRE_BUSY, [&](auto* error) {
    return hbmwire_endpoint_start_reconnect(ends.a.get(), kSecond, &no_pending, error);
  });
  refused(HBMWIRE_BUSY, [&](auto* error) {
    return hbmwire_endpoint_reconnect(ends.a.get(), kSecond, HBMWIRE_NO_FD, error);
  });
  accepted.reset();
  ends.until([&] { return hbmwire_endpoint_phase(ends.a.get()) >= HBMWIRE_PHASE_FAILED; });
  const auto again = make<Pending>([&](auto** made, auto* error) {
    return hbmwire_endpoint_start_reconnect(ends.a.get(), 10 * kSecond, made, error);
  });
  ends.finish(hbmwire_pending_endpoint_transfer(again.get()));
}

TEST(CConnect, NoListenerIsAnError) {
  const Ends ends;
  hbmwire_endpoint* none = nullptr;
  refused(HBMWIRE_PEER_FAILED, [&](auto* error) {
    return hbmwire_endpoint_connect(ends.a_worker.get(), "127.0.0.1:1", 10 * kSecond, HBMWIRE_NO_FD,
                                    nullptr, &none, error);
  });
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_endpoint_connect(ends.a_worker.get(), "no port", 10 * kSecond, HBMWIRE_NO_FD,
                                    nullptr, &none, error);
  });
  refused(HBMWIRE_TIMED_OUT, [&](auto* error) {
    return hbmwire_listener_accept(ends.listener.get(), 0, HBMWIRE_NO_FD, &none, error);
  });
  hbmwire_remote_region* no_region = nullptr;
  refused(HBMWIRE_TIMED_OUT, [&](auto* error) {
    return hbmwire_endpoint_remote(ends.a.get(), "target", 0, HBMWIRE_NO_FD, &no_region, error);
  });
}

TEST(CConnect, AListenerTellsItsAddresses) {
  const Ends ends;
  using Texts = std::unique_ptr<hbmwire_texts, Freed<hbmwire_texts_free>>;
  const auto texts = make<Texts>([&](auto** made, auto* error) {
    return hbmwire_listener_addresses(ends.listener.get(), made, error);
  });
  ASSERT_EQ(hbmwire_texts_count(texts.get()), 1U);
  EXPECT_EQ(hbmwire_texts_get(texts.get(), 0), ends.address());
  EXPECT_EQ(hbmwire_texts_get(texts.get(), 1), nullptr);
  good(
      [&](auto* error) { return hbmwire_listener_withdraw(ends.listener.get(), "target", error); });
  refused(HBMWIRE_NOT_FOUND, [&](auto* error) {
    return hbmwire_listener_withdraw(ends.listener.get(), "target", error);
  });
}

TEST(CConnect, TwoInvitationsMeet) {
  const Ends ends;
  using Invitation = std::unique_ptr<hbmwire_invitation, Freed<hbmwire_invitation_free>>;
  const auto invite = [&](const Worker& worker) {
    return make<Invitation>([&](auto** made, auto* error) {
      return hbmwire_invitation_create(worker.get(), nullptr, made, error);
    });
  };
  const Invitation a = invite(ends.a_worker);
  const Invitation b = invite(ends.b_worker);
  std::size_t a_size = 0;
  std::size_t b_size = 0;
  const void* const a_bytes = hbmwire_invitation_bytes(a.get(), &a_size);
  const void* const b_bytes = hbmwire_invitation_bytes(b.get(), &b_size);
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_invitation_start(a.get(), a_bytes, a_size, error); });
  good([&](auto* error) { return hbmwire_invitation_start(a.get(), b_bytes, b_size, error); });
  Endpoint connected;
  std::thread other([&] {
    connected = make<Endpoint>([&](auto** made, auto* error) {
      return hbmwire_invitation_connect(b.get(), a_bytes, a_size, 10 * kSecond, HBMWIRE_NO_FD, made,
                                        error);
    });
  });
  Endpoint polled;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!polled && std::chrono::steady_clock::now() < end) {
    polled = make<Endpoint>(
        [&](auto** made, auto* error) { return hbmwire_invitation_poll(a.get(), made, error); });
  }
  other.join();
  ASSERT_TRUE(polled && connected);
  EXPECT_EQ(hbmwire_endpoint_phase(polled.get()), HBMWIRE_PHASE_READY);
}

/// Starts a process that connects, sends nothing more to its peer, and waits to be killed.
[[nodiscard]] pid_t start_peer(int port_from) {
  const pid_t peer = ::fork();
  if (peer != 0) return peer;
  std::uint16_t port = 0;
  if (::read(port_from, &port, sizeof port) != sizeof port) ::_exit(1);
  const Context context = make_context();
  const Worker worker = make_worker(context);
  char address[64];
  hbmwire_join_host_port("127.0.0.1", port, address, sizeof address);
  hbmwire_endpoint* endpoint = nullptr;
  if (hbmwire_endpoint_connect(worker.get(), address, 10 * kSecond, HBMWIRE_NO_FD, nullptr,
                               &endpoint, nullptr) != HBMWIRE_OK)
    ::_exit(1);
  for (;;) hbmwire_worker_progress(worker.get());
}

TEST(CDeadPeer, TransfersFailWithinThePeersTimeout) {
  int port[2];
  ASSERT_EQ(::pipe(port), 0);
  const pid_t peer = start_peer(port[0]);
  {
    const Context context = make_context();
    const Worker worker = make_worker(context);
    const Region region = make_region(context);
    auto endpoint_options = HBMWIRE_MADE(hbmwire_endpoint_options);
    endpoint_options.peer_timeout_ns = kSecond / 2;
    auto options = HBMWIRE_MADE(hbmwire_listener_options);
    options.address = "127.0.0.1";
    options.endpoint = &endpoint_options;
    const auto listener = make<Listener>([&](auto** made, auto* error) {
      return hbmwire_listener_create(worker.get(), &options, made, error);
    });
    const std::uint16_t number = hbmwire_listener_port(listener.get());
    ASSERT_EQ(::write(port[1], &number, sizeof number), ssize_t{sizeof number});
    const auto endpoint = make<Endpoint>([&](auto** made, auto* error) {
      return hbmwire_listener_accept(listener.get(), 10 * kSecond, HBMWIRE_NO_FD, made, error);
    });
    const hbmwire_slice into{region.get(), 0, kBytes};
    const auto received = make<Transfer>([&](auto** made, auto* error) {
      return hbmwire_endpoint_receive(endpoint.get(), &into, made, error);
    });
    ::kill(peer, SIGKILL);
    refused(HBMWIRE_PEER_FAILED, [&](auto* error) {
      return hbmwire_transfer_wait(received.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
    });
    Failure why;
    EXPECT_EQ(hbmwire_endpoint_failure(endpoint.get(), &why.error), HBMWIRE_PEER_FAILED);
    EXPECT_GE(hbmwire_endpoint_phase(endpoint.get()), HBMWIRE_PHASE_ENDING);
  }
  ::waitpid(peer, nullptr, 0);
  ::close(port[0]);
  ::close(port[1]);
}

}  // namespace
}  // namespace hbmwire::c_test
