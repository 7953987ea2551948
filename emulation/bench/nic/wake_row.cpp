// SPDX-License-Identifier: MIT
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench/common/queue.hpp"
#include "bench/common/timing.hpp"
#include "emulation/bench/nic/rows.hpp"

/// Two processes that wake each other: by SENDs, with both asleep on their completion channels; and
/// by eventfds.
namespace hbmwire::bench {
namespace {

constexpr std::uint32_t kWakeBytes = 8;
constexpr std::size_t kWakePage = 4096;

/// A receive is posted before each message is sent, so that the answer finds it.
class Sleeper {
 public:
  Sleeper(const SharedMemory& memory, Line& line)
      : memory_(memory), mr_(node_.register_dmabuf(memory)), queue_(node_, true) {
    for (unsigned i = 0; i < kReceives; ++i) receive();
    queue_.arm();
    line.send(queue_.address(0, 0));
    queue_.connect(line.receive<Address>());
    line.send(true);
    line.receive<bool>();
  }

  void send() {
    Operation operation(IBV_WR_SEND, element_of(memory_.address(), kWakeBytes, mr_), {},
                        IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    queue_.post(operation.request);
    queue_.wait_sends(1);
  }

  void wait() {
    unsigned arrived = 0;
    while (arrived == 0) {
      queue_.sleep();
      queue_.arm();
      arrived = queue_.poll_receives();
    }
    receive();
  }

 private:
  static constexpr unsigned kReceives = 16;

  void receive() {
    ibv_sge in = element_of(memory_.address() + kWakeBytes, kWakeBytes, mr_);
    queue_.post_receive(in);
  }

  const SharedMemory& memory_;
  Node node_;
  MrHandle mr_;
  Queue queue_;
};

int new_eventfd() {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  if (fd < 0) fail("eventfd");
  return fd;
}

void ring(int fd) {
  const std::uint64_t one = 1;
  if (::write(fd, &one, sizeof one) != sizeof one) fail("eventfd");
}

void wait_for(int fd) {
  std::uint64_t count = 0;
  if (::read(fd, &count, sizeof count) != sizeof count) fail("eventfd");
}

struct Rounds {
  std::uint32_t count = 0;
  bool by_eventfd = false;
};

class Wake final : public Contest {
 public:
  explicit Wake(const Effort& effort)
      : chunks_(effort.chunks),
        here_(kWakePage),
        there_(kWakePage),
        to_peer_(new_eventfd()),
        from_peer_(new_eventfd()),
        peer_(Cpus::allowed().second, [this](Line& line) { answer(line); }),
        sleeper_(here_, peer_.line()) {
    pin(Cpus::allowed().first);
  }

  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  Wake(Wake&&) = delete;
  Wake& operator=(Wake&&) = delete;

  ~Wake() override {
    ::close(to_peer_);
    ::close(from_peer_);
  }

  double ours() override {
    return rounds(false, [this] {
      sleeper_.send();
      sleeper_.wait();
    });
  }

  double theirs() override {
    return rounds(true, [this] {
      ring(to_peer_);
      wait_for(from_peer_);
    });
  }

 private:
  void answer(Line& line) const {
    Sleeper sleeper(there_, line);
    Rounds rounds;
    while (line.next(rounds)) {
      for (std::uint32_t i = 0; i < rounds.count; ++i) {
        if (rounds.by_eventfd) {
          wait_for(to_peer_);
          ring(from_peer_);
        } else {
          sleeper.wait();
          sleeper.send();
        }
      }
    }
  }

  template <typename Round>
  double rounds(bool by_eventfd, Round round) {
    peer_.line().send(Rounds{chunks_, by_eventfd});
    return median_ns(chunks_, round) / 2;
  }

  unsigned chunks_;
  SharedMemory here_;
  SharedMemory there_;
  int to_peer_;
  int from_peer_;
  Peer peer_;
  Sleeper sleeper_;
};

}  // namespace

std::vector<Row> wake_rows() {
  Row row{"wake", "SEND to a sleeper on its channel", "eventfd", Better::lower, 1.3, 1.1};
  row.make = [](const Effort& effort) { return std::make_unique<Wake>(effort); };
  return {row};
}

}  // namespace hbmwire::bench
