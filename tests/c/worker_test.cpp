// SPDX-License-Identifier: MIT
#include <poll.h>
#include <unistd.h>

#include <array>

#include "ends.hpp"

// How a program learns that transfers have ended, and receives messages.
namespace hbmwire::c_test {
namespace {

[[nodiscard]] Transfer put(const Ends& ends, const Remote& remote) {
  const hbmwire_slice from = ends.here(0, 64);
  const hbmwire_remote_slice to{remote.get(), 0, 64};
  return make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_put(ends.a.get(), &from, &to, nullptr, made, error);
  });
}

/// A receive that no message matches.
[[nodiscard]] Transfer receive(const Ends& ends) {
  const hbmwire_slice into = ends.here(0, 64);
  return make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_receive(ends.a.get(), &into, made, error);
  });
}

/// A descriptor that is readable.
struct Readable {
  Readable() {
    EXPECT_EQ(::pipe(ends.data()), 0);
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
  }

  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  ~Readable() {
    ::close(ends[0]);
    ::close(ends[1]);
  }

  std::array<int, 2> ends{};
};

TEST(CWorker, TellsOfTransfersThatAreOver) {
  const Ends ends;
  const Remote remote = ends.target();
  for (const std::uint64_t cookie : {11U, 12U}) {
    const Transfer one = put(ends, remote);
    good([&](auto* error) { return hbmwire_transfer_notify(one.get(), cookie, error); });
  }
  for (const std::uint64_t cookie : {11U, 12U}) {
    auto done = HBMWIRE_MADE(hbmwire_done);
    bool found = false;
    Failure why;
    ends.until([&] {
      good([&](auto* error) {
        return hbmwire_worker_next_done(ends.a_worker.get(), &done, &found, &why.error, error);
      });
      return found;
    });
    EXPECT_EQ(done.cookie, cookie);
    EXPECT_EQ(done.status, HBMWIRE_OK);
    EXPECT_EQ(why.error.code, HBMWIRE_OK);
    EXPECT_EQ(done.bytes, 64U);
    EXPECT_EQ(done.settled, 1);
  }
}

TEST(CWorker, SleepsOnItsDescriptor) {
  const Ends ends;
  const Transfer received = receive(ends);
  while (hbmwire_worker_progress(ends.a_worker.get()) != 0) {
  }
  bool may_sleep = false;
  ends.until([&] {
    good([&](auto* error) { return hbmwire_worker_arm(ends.a_worker.get(), &may_sleep, error); });
    return may_sleep;
  });
  EXPECT_GT(hbmwire_worker_wake_after_ms(ends.a_worker.get()), 0);
  const hbmwire_slice from = ends.there(0, 64);
  const auto sent = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_send(ends.b.get(), &from, HBMWIRE_LEVEL_SENT, made, error);
  });
  good([&](auto* error) {
    return hbmwire_transfer_wait(sent.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
  });
  pollfd entry{.fd = hbmwire_worker_fd(ends.a_worker.get()), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  ends.finish(received);
}

TEST(CWorker, WaitsForAnyAndForAll) {
  const Ends ends;
  const Remote remote = ends.target();
  const Transfer never = receive(ends);
  const Transfer first = put(ends, remote);
  const Transfer second = put(ends, remote);
  const std::array<hbmwire_transfer*, 4> some{nullptr, never.get(), first.get(), first.get()};
  std::size_t index = 99;
  bool found = false;
  good([&](auto* error) {
    return hbmwire_worker_wait_any(ends.a_worker.get(), some.data(), some.size(), 10 * kSecond,
                                   HBMWIRE_NO_FD, &index, &found, error);
  });
  EXPECT_TRUE(found);
  EXPECT_EQ(index, 2U);
  const std::array<hbmwire_transfer*, 2> all{first.get(), second.get()};
  bool over = false;
  good([&](auto* error) {
    return hbmwire_worker_wait_all(ends.a_worker.get(), all.data(), all.size(), 10 * kSecond,
                                   HBMWIRE_NO_FD, &over, error);
  });
  EXPECT_TRUE(over);
  const std::array<hbmwire_transfer*, 1> one{never.get()};
  good([&](auto* error) {
    return hbmwire_worker_wait_all(ends.a_worker.get(), one.data(), one.size(), 0, HBMWIRE_NO_FD,
                                   &over, error);
  });
  EXPECT_FALSE(over);
  EXPECT_FALSE(hbmwire_transfer_done(never.get()));
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_worker_wait_any(ends.a_worker.get(), nullptr, 0, 0, HBMWIRE_NO_FD, &index,
                                   &found, error);
  });
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_worker_wait_any(ends.a_worker.get(), nullptr, 3, 0, HBMWIRE_NO_FD, &index,
                                   &found, error);
  });
}

TEST(CWorker, EndsAWaitAtItsDeadlineOrByADescriptor) {
  const Ends ends;
  const Readable readable;
  const Transfer received = receive(ends);
  bool over = true;
  good([&](auto* error) {
    return hbmwire_transfer_poll_until(received.get(), kSecond / 100, HBMWIRE_NO_FD, &over, error);
  });
  EXPECT_FALSE(over);
  good([&](auto* error) {
    return hbmwire_transfer_poll_until(received.get(), HBMWIRE_FOREVER, readable.ends[0], &over,
                                       error);
  });
  EXPECT_FALSE(over);
  refused(HBMWIRE_TIMED_OUT, [&](auto* error) {
    return hbmwire_transfer_wait(received.get(), kSecond / 100, HBMWIRE_NO_FD, error);
  });
  const Transfer other = receive(ends);
  refused(HBMWIRE_CANCELLED, [&](auto* error) {
    return hbmwire_transfer_wait(other.get(), HBMWIRE_FOREVER, readable.ends[0], error);
  });
  refused(HBMWIRE_CANCELLED, [&](auto* error) {
    return hbmwire_worker_wait(ends.a_worker.get(), HBMWIRE_FOREVER, readable.ends[0], error);
  });
  EXPECT_EQ(hbmwire_endpoint_phase(ends.a.get()), HBMWIRE_PHASE_READY);
}

TEST(CWorker, CancelsATransferWithoutWaiting) {
  const Ends ends;
  const Transfer received = receive(ends);
  good([&](auto* error) { return hbmwire_transfer_request_cancel(received.get(), error); });
  ends.until([&] { return hbmwire_transfer_done(received.get()); });
  bool over = false;
  refused(HBMWIRE_CANCELLED,
          [&](auto* error) { return hbmwire_transfer_poll(received.get(), &over, error); });
}

TEST(CWorker, HandsMessagesOutWithTheirSender) {
  auto options = HBMWIRE_MADE(hbmwire_endpoint_options);
  options.messages = HBMWIRE_MESSAGES_HANDED_OUT;
  const Ends ends(HBMWIRE_MEMORY_HOST, &options);
  set(ends.a_region, 8);
  set(ends.b_region, 0);
  const hbmwire_slice small = ends.here(0, 32);
  const hbmwire_slice whole = ends.here();
  ends.finish(make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_send(ends.a.get(), &small, HBMWIRE_LEVEL_SENT, made, error);
  }));
  const auto tagged = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_send_tagged(ends.a.get(), &whole, 77, HBMWIRE_LEVEL_ARRIVED, made,
                                        error);
  });
  using Message = std::unique_ptr<hbmwire_message, Freed<hbmwire_message_free>>;
  const auto next = [&] {
    Message message;
    ends.until([&] {
      message = make<Message>([&](auto** made, auto* error) {
        return hbmwire_worker_next_message(ends.b_worker.get(), made, error);
      });
      return message != nullptr;
    });
    return message;
  };
  auto b_info = HBMWIRE_MADE(hbmwire_endpoint_info);
  good([&](auto* error) { return hbmwire_endpoint_get_info(ends.b.get(), &b_info, error); });
  const Message first = next();
  auto info = HBMWIRE_MADE(hbmwire_message_info);
  good([&](auto* error) { return hbmwire_message_get_info(first.get(), &info, error); });
  EXPECT_EQ(info.endpoint_id, b_info.id);
  EXPECT_EQ(info.has_tag, 0);
  EXPECT_EQ(info.length_bytes, 32U);
  ASSERT_EQ(info.is_here, 1);
  EXPECT_EQ(static_cast<const unsigned char*>(info.bytes)[31], 8);
  const Message second = next();
  good([&](auto* error) { return hbmwire_message_get_info(second.get(), &info, error); });
  EXPECT_EQ(info.has_tag, 1);
  EXPECT_EQ(info.tag, 77U);
  const hbmwire_slice into = ends.there();
  const auto received = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_message_receive(second.get(), &into, made, error);
  });
  ends.finish(received);
  ends.finish(tagged);
  EXPECT_TRUE(has(ends.b_region, 8));
  // hbmwire_message_receive() has taken the message, so its handle is empty.
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_message_get_info(second.get(), &info, error); });
  hbmwire_transfer* none = nullptr;
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_message_receive(second.get(), &into, &none, error); });
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_endpoint_receive(ends.b.get(), &into, &none, error); });
}

TEST(CWorker, TellsWhenATransferWasAskedForAndOver) {
  auto options = HBMWIRE_MADE(hbmwire_worker_options);
  options.times = 1;
  options.threads = HBMWIRE_THREADS_ANY;
  const Ends ends(HBMWIRE_MEMORY_HOST, nullptr, &options);
  const Transfer one = put(ends, ends.target());
  ends.finish(one);
  const auto report = make<Report>(
      [&](auto** made, auto* error) { return hbmwire_transfer_explain(one.get(), made, error); });
  auto info = HBMWIRE_MADE(hbmwire_report_info);
  good([&](auto* error) { return hbmwire_report_get_info(report.get(), &info, error); });
  EXPECT_GT(info.asked_ns, 0);
  EXPECT_GE(info.posted_ns, info.asked_ns);
  EXPECT_GE(info.over_ns, info.posted_ns);
}

TEST(CWorker, AThreadOfTheLibraryMakesProgress) {
  auto options = HBMWIRE_MADE(hbmwire_worker_options);
  options.threads = HBMWIRE_THREADS_PROGRESS;
  const Ends ends(HBMWIRE_MEMORY_HOST, nullptr, &options);
  const Transfer one = put(ends, ends.target());
  good([&](auto* error) {
    return hbmwire_transfer_wait(one.get(), 10 * kSecond, HBMWIRE_NO_FD, error);
  });
  options.threads = 3;  // no way of threading has this number
  hbmwire_worker* none = nullptr;
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_worker_create(ends.context.get(), &options, &none, error);
  });
}

}  // namespace
}  // namespace hbmwire::c_test
