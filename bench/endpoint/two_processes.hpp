// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "bench/common/contest.hpp"
#include "bench/common/timing.hpp"
#include "bench/endpoint/bytes.hpp"

namespace hbmwire::bench {

inline constexpr std::size_t kWord = sizeof(std::uint64_t);

/// No end, for rows that run in programs of their own.
struct NoEnd {
  explicit NoEnd(const Place& /*place*/) {}
};

/// A contest of two processes, one on each CPU, which an `Ours` and a `Theirs` connect. Both use
/// the same memory. The peer process sleeps until it is called, and then does `Answer` the given
/// number of times.
template <class Ours, class Theirs, class Answer>
class TwoProcesses : public Contest {
 public:
  /// Forks the peer process, which waits until a row begins. Some libraries cannot be used in a
  /// child of a process that has used them, so the fork must come before all measurements.
  static std::shared_ptr<Peer> forked(Kind kind, std::size_t bulk_bytes) {
    return std::make_shared<Peer>(Cpus::allowed().second, [kind, bulk_bytes](Line& line) {
      bool begins = false;
      if (line.next(begins)) serve(line, kind, bulk_bytes);
    });
  }

 protected:
  // Our end is user 0 of the memory, theirs is user 1. The peer's ends listen, so these do not.
  TwoProcesses(Kind kind, std::size_t bulk_bytes, std::shared_ptr<Peer> peer = nullptr)
      : peer_(peer != nullptr ? std::move(peer) : forked(kind, bulk_bytes)),
        begun_(begin(peer_->line())),
        bytes_(kind, bulk_bytes),
        ours_({bytes_, peer_->line(), 0, false}),
        theirs_({bytes_, peer_->line(), 1, false}) {
    pin(Cpus::allowed().first);
  }

  Ours& our_end() { return ours_; }

  Theirs& their_end() { return theirs_; }

  /// Lets the peer do `Answer` with its end of the same library, `times` times.
  void call(const Ours& /*end*/, std::uint64_t times) { peer_->line().send(Call{0, times}); }

  void call(const Theirs& /*end*/, std::uint64_t times) { peer_->line().send(Call{1, times}); }

 private:
  struct Call {
    std::uint64_t user = 0;
    std::uint64_t times = 0;
  };

  static void serve(Line& line, Kind kind, std::size_t bulk_bytes) {
    const Bytes bytes(kind, bulk_bytes);
    Ours ours({bytes, line, 0, true});
    Theirs theirs({bytes, line, 1, true});
    Call call;
    while (line.next(call)) {
      if (call.user == 0) {
        Answer()(ours, call.times);
      } else if constexpr (!std::is_same_v<Theirs, NoEnd>) {
        Answer()(theirs, call.times);
      }
    }
  }

  /// Lets the peer process go on to serve(). Its result only makes it usable as an initialiser,
  /// which must run before the ends connect.
  static bool begin(Line& line) {
    line.send(true);
    return true;
  }

  std::shared_ptr<Peer> peer_;
  bool begun_;
  Bytes bytes_;
  Ours ours_;
  Theirs theirs_;
};

/// The peer does nothing: the NIC, or another process, writes its memory without it.
struct Sleep {
  template <class End>
  void operator()(End& /*end*/, std::uint64_t /*times*/) const {}
};

/// The peer answers each word with the same word.
struct AnswerWords {
  template <class End>
  void operator()(End& end, std::uint64_t times) const {
    for (; times != 0; --times) {
      const std::uint64_t value = end.next_word();
      end.wait_for_word(value);
      end.write_word(value);
    }
  }
};

/// The peer answers each message with a message.
struct AnswerMessages {
  template <class End>
  void operator()(End& end, std::uint64_t times) const {
    for (; times != 0; --times) {
      end.take_message();
      end.send_message();
    }
  }
};

/// The peer takes all messages, and then tells that it has.
template <std::size_t kBytes>
struct TakeMessages {
  template <class End>
  void operator()(End& end, std::uint64_t times) const {
    end.take_messages(kBytes, static_cast<unsigned>(times));
    const std::uint64_t value = end.next_word();
    end.write_word(value);
  }
};

/// Half a round trip of a word: that of the median chunk.
template <class End>
double word_ns(End& end, unsigned chunks) {
  return median_ns(chunks,
                   [&] {
                     for (unsigned i = 0; i < kRoundsOfChunk; ++i) {
                       const std::uint64_t value = end.next_word();
                       end.write_word(value);
                       end.wait_for_word(value);
                     }
                   }) /
         (2 * kRoundsOfChunk);
}

/// Half a round trip of a message: that of the median chunk.
template <class End>
double message_ns(End& end, unsigned chunks) {
  return median_ns(chunks,
                   [&] {
                     for (unsigned i = 0; i < kRoundsOfChunk; ++i) {
                       end.send_message();
                       end.take_message();
                     }
                   }) /
         (2 * kRoundsOfChunk);
}

/// The time for one of many messages, until the peer has all.
template <class End>
double stream_ns(End& end, std::size_t bytes, unsigned count) {
  const double before = now_ns();
  end.send_messages(bytes, count);
  end.wait_for_word(end.next_word());
  return (now_ns() - before) / count;
}

/// The time for one of many requests: that of the median chunk.
template <class End>
double request_ns(End& end, std::size_t bytes, unsigned chunks) {
  // A timed chunk should take at least some ten microseconds.
  const unsigned count = bytes <= Bytes::kPage ? 256 : bytes <= (64U << 10U) ? 32 : 4;
  end.run(bytes, kWindow);  // fills the window, so all timed requests find it full
  const double chunk = median_ns(chunks, [&] { end.run(bytes, count); });
  end.finish();
  return chunk / count;
}

/// The time for one of many requests, averaged over all of them, as programs do that print an
/// average.
template <class End>
double average_request_ns(End& end, std::size_t bytes, unsigned count) {
  const double before = now_ns();
  end.run(bytes, count);
  end.finish();
  return (now_ns() - before) / count;
}

}  // namespace hbmwire::bench
