// SPDX-License-Identifier: MIT
#include "mover/staged_server.hpp"

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;
using Outcome = MessageHeader::Outcome;

namespace {

// Jobs for the peer under way at a time. A peer whose own memory is staged, too, asks for no more.
constexpr std::uint32_t kMostServed = 4;

}  // namespace

void StagedServer::on_request(const MessageHeader& header, std::uint64_t at) noexcept {
  const bool may = endpoint_.paths.admits(Path::staged);
  if (endpoint_.paths.by_tcp() &&
      endpoint_.movers.pieces.find(header.address, header.length) == nullptr) {
    return endpoint_.break_protocol(
        "the peer sent a message for a request that has frames of its own over TCP");
  }
  if (!may) return answer(header.id, Outcome::refused, 0);
  const auto taken = guarded(Stage::complete, [&]() -> Result<void> {
    HBMWIRE_TRY(endpoint_.worker_nic.staged->prepare());
    requests_.push_back({header, at});
    return {};
  });
  if (!taken) return answer(header.id, Outcome::refused, 0);
  endpoint_.messages.press();
}

void StagedServer::advance() noexcept {
  StagedMover& mover = *endpoint_.worker_nic.staged;
  while (serving_ < kMostServed && !requests_.empty()) {
    const ServeRequest request = requests_.front();
    requests_.pop_front();
    const auto begun = guarded(Stage::complete, [&]() -> Result<void> {
      mover.begin_serving(endpoint_, request);
      return {};
    });
    if (begun) {
      ++serving_;
    } else {
      answer(request.header.id, Outcome::refused, 0);
    }
  }
  mover.advance_served(endpoint_);
}

/// Answers the peer: the job is no longer under way here.
void StagedServer::on_over(const StagedJob& job) noexcept {
  --serving_;
  if (endpoint_.phase == EndpointPhase::ready) {
    answer(job.id,
           job.denied  ? Outcome::denied
           : job.error ? Outcome::refused
                       : Outcome::taken,
           job.whole.length);
  } else {
    endpoint_.ending.settle();
  }
}

void StagedServer::answer(std::uint32_t id, Outcome outcome, std::uint64_t length) noexcept {
  MessageHeader header;
  header.kind = MessageHeader::Kind::finished;
  header.id = id;
  header.outcome = outcome;
  header.length = outcome == Outcome::taken ? length : 0;
  endpoint_.messages.answer(header);
}

}  // namespace hbmwire::detail
