// SPDX-License-Identifier: MIT
#include "tools/server/exchange.hpp"

#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

// docs/server-client.md names the parts of a run.
class ServerExchange {
 public:
  ServerExchange(Job& job, const wire::Hello& hello)
      : job_(job), hello_(hello), staging_(job.side.buffer, job.session) {}

  Outcome<void> run() {
    HBMWIRE_TRY(prepare());
    job_.output.line("Starting communication...");
    for (std::uint32_t i = 1; i <= hello_.iterations; ++i) HBMWIRE_TRY(iterate(i));
    HBMWIRE_TRY(write_test());
    HBMWIRE_TRY(read_test());
    return say_bye();
  }

 private:
  [[nodiscard]] Pattern pattern(Tag tag, std::uint32_t iteration) const noexcept {
    return {.seed = hello_.seed, .iteration = iteration, .tag = tag};
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return job_.side.layout.size_bytes; }

  // The receives are posted before the client learns that it may send.
  Outcome<void> prepare() {
    HBMWIRE_TRY(job_.session.trade_addresses(job_.side.nic, job_.side.buffer.region(), size()));
    HBMWIRE_TRY(await_message(1));
    HBMWIRE_TRY(job_.session.connect());
    HBMWIRE_TRY(job_.session.announce(Step::start));
    return job_.session.expect_step(Step::start);
  }

  /// Prepares for the client's message of this iteration: poisons the memory, posts the receives.
  Outcome<void> await_message(std::uint32_t iteration) {
    HBMWIRE_TRY(staging_.poison(job_.receive(), pattern(Tag::send, iteration)));
    return post_receives(job_);
  }

  Outcome<void> iterate(std::uint32_t iteration) {
    job_.output.line("--- Iteration {} ---", iteration);
    job_.output.line("Waiting for client message...");
    HBMWIRE_TRY(await_receives(job_, kSend));
    job_.output.line("Received data in {} memory", job_.side.in_device() ? "device" : "host");
    HBMWIRE_TRY(transform(iteration));
    // Posted before the response is sent, because the client may send its next message after the
    // response.
    if (iteration < hello_.iterations) HBMWIRE_TRY(await_message(iteration + 1));
    job_.output.line("Sending response...");
    HBMWIRE_TRY(send_all(job_, kResponse));
    job_.output.line("✓ Response sent");
    return hear_verdict(job_, kResponse, iteration);
  }

  Outcome<void> transform(std::uint32_t iteration) {
    job_.output.line("{} Doubling each integer ({})...", job_.buffer_to_host(),
                     job_.side.buffer.copy_path());
    HBMWIRE_TRY_ASSIGN(const auto found,
                       staging_.verify_and_double(job_.receive(), pattern(Tag::send, iteration),
                                                  job_.side.layout.transmit()));
    job_.output.line("{} Response {}", job_.host_to_buffer(), ints_text(staging_.head(), size()));
    return deliver_verdict(job_, kSend, iteration, found);
  }

  // The tests of write and read are not repeated: all of theirs is iteration 1.
  Outcome<void> write_test() {
    job_.output.line("--- RDMA Write Test ---");
    HBMWIRE_TRY(staging_.fill(job_.transmit(), pattern(Tag::write, 1)));
    HBMWIRE_TRY(job_.session.expect_step(Step::write_target));
    job_.output.line("Performing RDMA Write to client...");
    HBMWIRE_TRY(write_all(job_, kWrite, hello_.seed));
    job_.output.line("✓ RDMA Write completed");
    return hear_verdict(job_, kWrite, 1);
  }

  Outcome<void> read_test() {
    job_.output.line("--- RDMA Read Test ---");
    HBMWIRE_TRY(staging_.fill(job_.transmit(), pattern(Tag::read, 1)));
    HBMWIRE_TRY(job_.session.announce(Step::read_source));
    job_.output.line("Waiting for client to read...");
    return hear_verdict(job_, kRead, 1);
  }

  Outcome<void> say_bye() {
    job_.output.line("Waiting for client to finish...");
    HBMWIRE_TRY(job_.session.expect<wire::Bye>());
    job_.output.line("✓ Client finished");
    return job_.session.send(wire::Bye{});
  }

  Job& job_;
  const wire::Hello& hello_;
  Staging staging_;
};

}  // namespace

Outcome<void> serve_exchange(Job& job, const wire::Hello& hello) {
  return ServerExchange(job, hello).run();
}

}  // namespace hbmwire::tools
