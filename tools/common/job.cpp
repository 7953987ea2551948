// SPDX-License-Identifier: MIT
#include "tools/common/job.hpp"

#include "hbmwire/low_level/connection.hpp"

namespace hbmwire::tools {
namespace {

tl::unexpected<Failure> wrong_message(const Job& job, const std::string& operation,
                                      const Completion& got, std::uint64_t expected_bytes) {
  return fail(
      fmt::format("complete: {}: in {} a message of {} bytes{} arrived, expected {} bytes{}",
                  job.session.peer(), operation, got.length_bytes,
                  got.has_immediate ? " with an immediate value" : "", expected_bytes,
                  got.has_immediate ? " without one" : ""));
}

}  // namespace

Outcome<void> post_receives(Job& job) {
  const Window window = job.receive();
  const Pieces pieces = job.session.pieces(window.length_bytes);
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const Slice into = job.slice(window.offset_bytes + pieces.offset(i), pieces.length(i));
    HBMWIRE_TRY(job.session.connection().post_receive(i, into));
  }
  return {};
}

Outcome<void> await_receives(Job& job, const std::string& operation) {
  const Pieces pieces = job.session.pieces(job.receive().length_bytes);
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    HBMWIRE_TRY_ASSIGN(const Completion done, job.session.arrival());
    if (done.kind != Completion::Kind::receive || done.length_bytes != pieces.length(i)) {
      return wrong_message(job, operation, done, pieces.length(i));
    }
    ++job.report.operation(operation).completions;
  }
  return {};
}

Outcome<void> send_all(Job& job, const std::string& operation) {
  const Window window = job.transmit();
  const Pieces pieces = job.session.pieces(window.length_bytes);
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const Slice from = job.slice(window.offset_bytes + pieces.offset(i), pieces.length(i));
    HBMWIRE_TRY(job.session.connection().post_send(i, from));
  }
  HBMWIRE_TRY(job.session.finish(Completion::Kind::send, pieces.count()));
  job.report.operation(operation).completions += pieces.count();
  return {};
}

Outcome<void> write_all(Job& job, const std::string& operation, std::uint32_t immediate) {
  const Window window = job.transmit();
  const Pieces pieces = job.session.pieces(window.length_bytes);
  Connection& connection = job.session.connection();
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const Slice from = job.slice(window.offset_bytes + pieces.offset(i), pieces.length(i));
    const RemoteMemory to = job.session.remote(job.side.layout.receive() + pieces.offset(i));
    const bool last = i + 1 == pieces.count();
    HBMWIRE_TRY(last ? connection.post_write_immediate(i, from, to, immediate)
                     : connection.post_write(i, from, to));
  }
  HBMWIRE_TRY(job.session.finish(Completion::Kind::write, pieces.count()));
  job.report.operation(operation).completions += pieces.count();
  return {};
}

Outcome<void> read_all(Job& job, const std::string& operation) {
  const Window window = job.receive();
  const Pieces pieces = job.session.pieces(window.length_bytes);
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const Slice into = job.slice(window.offset_bytes + pieces.offset(i), pieces.length(i));
    const RemoteMemory from = job.session.remote(job.side.layout.transmit() + pieces.offset(i));
    HBMWIRE_TRY(job.session.connection().post_read(i, into, from));
  }
  HBMWIRE_TRY(job.session.finish(Completion::Kind::read, pieces.count()));
  job.report.operation(operation).completions += pieces.count();
  return {};
}

Outcome<void> deliver_verdict(Job& job, const std::string& operation, std::uint32_t iteration,
                              const Comparison& found) {
  const wire::Verdict verdict{.operation = operation,
                              .iteration = iteration,
                              .bytes = found.bytes,
                              .wrong_bytes = found.wrong_bytes,
                              .offset_bytes = found.offset_bytes,
                              .expected = found.expected,
                              .got = found.got};
  job.report.add(verdict);
  if (found.wrong_bytes == 0) {
    job.output.line("✓ Verified: {} bytes, every one as expected", found.bytes);
  } else {
    job.output.error("verify: " + verdict_text(verdict));
  }
  return job.session.send(verdict);
}

Outcome<void> hear_verdict(Job& job, const std::string& operation, std::uint32_t iteration) {
  HBMWIRE_TRY_ASSIGN(const auto verdict, job.session.expect<wire::Verdict>());
  const bool fits = verdict.operation == operation && verdict.iteration == iteration &&
                    verdict.bytes == job.side.layout.size_bytes &&
                    verdict.wrong_bytes <= verdict.bytes;
  if (!fits) {
    return fail(
        fmt::format("verify: {}: the {}'s verdict is on {}, iteration {}, {} bytes, not on {}, "
                    "iteration {}: are both of one version?",
                    job.session.peer(), job.peer_role, wire::printable(verdict.operation),
                    verdict.iteration, verdict.bytes, operation, iteration));
  }
  job.report.add(verdict);
  if (verdict.wrong_bytes != 0) {
    job.output.error(fmt::format("verify: the {} found: {}", job.peer_role, verdict_text(verdict)));
  }
  return {};
}

}  // namespace hbmwire::tools
