// SPDX-License-Identifier: MIT
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/common/timing.hpp"

namespace hbmwire::bench {

/// The CPUs of the two ends of each measurement; the same one if there is only one.
struct Cpus {
  int first = 0;
  int second = 0;

  /// The first and the last CPU that this process was allowed to use at the first call.
  static Cpus allowed();
};

void pin(int cpu);

/// Moves the calling thread to another CPU while this object lives; threads and processes that it
/// starts meanwhile stay there. The end of this object moves the thread to the first CPU.
class OnCpu {
 public:
  explicit OnCpu(int cpu) { pin(cpu); }

  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

  ~OnCpu() { pin(Cpus::allowed().first); }
};

/// An OnCpu for the threads of a device's engine: they stay on the CPU that the waiting program
/// does not use.
class OnSecondCpu : public OnCpu {
 public:
  OnSecondCpu() : OnCpu(Cpus::allowed().second) {}
};

/// Throws, with errno's text.
[[noreturn]] void fail(const std::string& what);

/// Zeroed memory that children share; never freed.
void* shared_pages(std::size_t bytes);

/// Spins, for 20 s at most. Yields the CPU now and then, for machines with only one.
template <typename Condition>
void spin_until(Condition condition) {
  constexpr unsigned kPatience = 20'000;  // spins between two looks at the clock
  constexpr double kDeadlineNs = 20e9;
  double deadline = 0;
  for (unsigned spins = 1; !condition(); ++spins) {
    if (spins % kPatience != 0) continue;
    ::sched_yield();
    if (deadline == 0) deadline = now_ns() + kDeadlineNs;
    if (now_ns() > deadline) throw std::runtime_error("the other process does not answer");
  }
}

/// One end of a socket over which two processes exchange plain values.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}

  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  Line(Line&&) = delete;
  Line& operator=(Line&&) = delete;
  ~Line();

  template <typename T>
  void send(const T& value) {
    write_all(&value, sizeof value);
  }

  /// Reads a value. False: the other end is closed.
  template <typename T>
  bool next(T& value) {
    return read_all(&value, sizeof value);
  }

  /// Whether the other end has written, or closed.
  [[nodiscard]] bool is_readable() const;

  /// Reads a value. Throws if the other end is closed.
  template <typename T>
  T receive() {
    T value{};
    if (!next(value)) throw std::runtime_error("the other process is gone");
    return value;
  }

 private:
  void write_all(const void* data, std::size_t bytes);
  bool read_all(void* data, std::size_t bytes);

  int fd_;
};

/// A child process on a CPU of its own. It ends when its body returns, or with this process. The
/// body sees the line closed when this object is destroyed.
class Peer {
 public:
  Peer(int cpu, const std::function<void(Line&)>& body);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  Peer(Peer&&) = delete;
  Peer& operator=(Peer&&) = delete;
  ~Peer();

  Line& line() { return *line_; }

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  std::unique_ptr<Line> line_;
  pid_t pid_ = -1;
};

}  // namespace hbmwire::bench
