// SPDX-License-Identifier: MIT
#include "tools/client/exchange.hpp"

#include "hbmwire/low_level/connection.hpp"

#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

class ClientExchange {
 public:
  ClientExchange(Job& job, const wire::Hello& hello)
      : job_(job), hello_(hello), staging_(job.side.buffer, job.session) {}

  Outcome<void> run() {
    HBMWIRE_TRY(job_.session.trade_addresses(job_.side.nic, job_.side.buffer.region(), size()));
    HBMWIRE_TRY(job_.session.connect());
    HBMWIRE_TRY(job_.session.announce(Step::start));
    HBMWIRE_TRY(job_.session.expect_step(Step::start));
    job_.output.line("Starting communication...");
    for (std::uint32_t i = 1; i <= hello_.iterations; ++i) HBMWIRE_TRY(iterate(i));
    HBMWIRE_TRY(write_test());
    HBMWIRE_TRY(read_test());
    HBMWIRE_TRY(job_.session.send(wire::Bye{}));
    HBMWIRE_TRY(job_.session.expect<wire::Bye>());
    return {};
  }

 private:
  [[nodiscard]] Pattern pattern(Tag tag, std::uint32_t iteration,
                                bool doubled = false) const noexcept {
    return {.seed = hello_.seed, .iteration = iteration, .tag = tag, .doubled = doubled};
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return job_.side.layout.size_bytes; }

  Outcome<void> iterate(std::uint32_t iteration) {
    job_.output.line("--- Iteration {} ---", iteration);
    HBMWIRE_TRY(prepare(iteration));
    job_.output.line("Sending message to server...");
    HBMWIRE_TRY(send_all(job_, kSend));
    job_.output.line("✓ Message sent");
    job_.output.line("Waiting for server response...");
    HBMWIRE_TRY(await_receives(job_, kResponse));
    job_.output.line("{} Reading server response:", job_.buffer_to_host());
    HBMWIRE_TRY(
        check(kResponse, pattern(Tag::send, iteration, /*doubled=*/true), "Received from server"));
    return hear_verdict(job_, kSend, iteration);
  }

  // Posts the receive for the response before it sends the message that causes the response.
  Outcome<void> prepare(std::uint32_t iteration) {
    job_.output.line("{} Writing data pattern for iteration {}...", job_.host_to_buffer(),
                     iteration);
    HBMWIRE_TRY(staging_.fill(job_.transmit(), pattern(Tag::send, iteration)));
    job_.output.line("[CPU] Sending to server {}", ints_text(staging_.head(), size()));
    HBMWIRE_TRY(staging_.poison(job_.receive(), pattern(Tag::send, iteration, /*doubled=*/true)));
    return post_receives(job_);
  }

  Outcome<void> check(const char* operation, const Pattern& expected, const char* label) {
    HBMWIRE_TRY_ASSIGN(const auto found, staging_.verify(job_.receive(), expected));
    job_.output.line("{} {}", label, ints_text(staging_.head(), size()));
    const std::uint32_t iteration = operation == kResponse ? expected.iteration : 1;
    return deliver_verdict(job_, operation, iteration, found);
  }

  Outcome<void> write_test() {
    job_.output.line("--- RDMA Write Test ---");
    HBMWIRE_TRY(staging_.poison(job_.receive(), pattern(Tag::write, 1)));
    // The immediate value consumes a receive, which carries no bytes.
    HBMWIRE_TRY(job_.session.connection().post_receive(0, job_.slice(0, 0)));
    HBMWIRE_TRY(job_.session.announce(Step::write_target));
    job_.output.line("Waiting for server's RDMA write...");
    HBMWIRE_TRY(await_write());
    job_.output.line("{} Reading RDMA Write data:", job_.buffer_to_host());
    return check(kWrite, pattern(Tag::write, 1), "After RDMA Write");
  }

  Outcome<void> await_write() {
    HBMWIRE_TRY_ASSIGN(const Completion done, job_.session.arrival());
    const Pieces pieces = job_.session.pieces(size());
    // The last piece carries the immediate value.
    const std::uint64_t expected_bytes = pieces.length(pieces.count() - 1);
    const bool right = done.kind == Completion::Kind::receive_write_immediate &&
                       done.immediate == hello_.seed && done.length_bytes == expected_bytes;
    ++job_.report.operation(kWrite).completions;
    if (right) return {};
    return fail(fmt::format(
        "complete: {}: the RDMA write ended with immediate {:#x} and {} bytes, expected {:#x} and "
        "{} bytes: are both of one version?",
        job_.session.peer(), done.immediate, done.length_bytes, hello_.seed, expected_bytes));
  }

  Outcome<void> read_test() {
    job_.output.line("--- RDMA Read Test ---");
    HBMWIRE_TRY(staging_.poison(job_.receive(), pattern(Tag::read, 1)));
    HBMWIRE_TRY(job_.session.expect_step(Step::read_source));
    job_.output.line("Performing RDMA Read from server...");
    HBMWIRE_TRY(read_all(job_, kRead));
    job_.output.line("✓ RDMA Read completed");
    return check(kRead, pattern(Tag::read, 1), "Read data");
  }

  Job& job_;
  const wire::Hello& hello_;
  Staging staging_;
};

}  // namespace

Outcome<void> run_exchange(Job& job, const wire::Hello& hello) {
  return ClientExchange(job, hello).run();
}

}  // namespace hbmwire::tools
