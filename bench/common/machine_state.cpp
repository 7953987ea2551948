// SPDX-License-Identifier: MIT
#include "bench/common/machine_state.hpp"

#include "bench/common/timing.hpp"

namespace hbmwire::bench {
namespace {

constexpr std::uint32_t kRounds = 400;

/// A chain of dependent multiplications, about 3 us.
void work() {
  std::uint64_t value = 1;
  for (int i = 0; i < 2000; ++i) {
    value = value * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(value));
  }
}

}  // namespace

StateSampler::StateSampler(const Cpus& cpus)
    : ball_(new (shared_pages(sizeof(Ball))) Ball{}), partner_(cpus.second, [this](Line& line) {
        std::uint32_t rounds = 0;
        while (line.next(rounds)) {
          line.send(true);
          // The sampler makes the round odd, and this side the next even number.
          for (std::uint32_t i = 0; i < rounds; ++i) {
            spin_until([&] { return ball_->round.load(std::memory_order_acquire) == 2 * i + 1; });
            ball_->round.store(2 * i + 2, std::memory_order_release);
          }
          // Sets the ball back for the next sample.
          ball_->round.store(0, std::memory_order_release);
          line.send(true);
        }
      }) {}

double StateSampler::hop_ns() {
  partner_.line().send(kRounds);
  // The partner is awake now.
  partner_.line().receive<bool>();
  std::uint32_t round = 0;
  const double round_trip = median_ns(kRounds, [&] {
    ball_->round.store(round + 1, std::memory_order_release);
    round += 2;
    spin_until([&] {
      const std::uint32_t now = ball_->round.load(std::memory_order_acquire);
      // 0: the partner has answered the last round, and set the ball back.
      return now == round || now == 0;
    });
  });
  partner_.line().receive<bool>();
  return round_trip / 2;
}

State StateSampler::sample() {
  State state;
  state.work_ns = median_ns(31, work);
  state.hop_ns = hop_ns();
  return state;
}

}  // namespace hbmwire::bench
