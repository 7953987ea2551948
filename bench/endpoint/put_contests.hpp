// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/two_processes.hpp"

/// Contests of our puts against those of another end in the same process.
namespace hbmwire::bench {

/// The time until the peer sees a word.
template <class Theirs>
class PutLatency final : public TwoProcesses<OurEnd, Theirs, AnswerWords> {
 public:
  PutLatency(Kind kind, unsigned chunks, std::shared_ptr<Peer> peer = nullptr)
      : TwoProcesses<OurEnd, Theirs, AnswerWords>(kind, kWord, std::move(peer)), chunks_(chunks) {}

  double ours() override { return call_and_time(this->our_end()); }

  double theirs() override { return call_and_time(this->their_end()); }

 private:
  template <class End>
  double call_and_time(End& end) {
    this->call(end, std::uint64_t{chunks_} * kRoundsOfChunk);
    return word_ns(end, chunks_);
  }

  unsigned chunks_;
};

/// The time for one of many puts under way.
template <class Theirs>
class PutRate final : public TwoProcesses<OurEnd, Theirs, Sleep> {
 public:
  PutRate(Kind kind, std::size_t bytes, unsigned chunks, std::shared_ptr<Peer> peer = nullptr)
      : TwoProcesses<OurEnd, Theirs, Sleep>(kind, bytes, std::move(peer)),
        bytes_(bytes),
        chunks_(chunks) {}

  double ours() override { return request_ns(this->our_end(), bytes_, chunks_); }

  double theirs() override { return request_ns(this->their_end(), bytes_, chunks_); }

 private:
  std::size_t bytes_;
  unsigned chunks_;
};

}  // namespace hbmwire::bench
