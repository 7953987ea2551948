// SPDX-License-Identifier: MIT
#include "bench/scale/measure.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <numeric>

namespace hbmwire::bench {
namespace {

/// Shared memory by which the two processes communicate, beside their lines.
struct Shared {
  std::atomic<std::size_t> connections = 0;
  std::atomic<unsigned> asked = 0;     // how often the server's memory was asked for
  std::atomic<unsigned> answered = 0;  // how often that was answered
  std::atomic<std::uint64_t> resident_bytes = 0;
  std::atomic<bool> over = false;
};

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void serve(const Library& library, Line& line, Shared& shared) {
  const std::unique_ptr<Server> server = library.serve(line);
  for (unsigned turn = 0; !shared.over; ++turn) {
    server->progress();
    shared.connections = server->connections();
    if (shared.asked != shared.answered) {
      shared.resident_bytes = resident_bytes();
      ++shared.answered;
    }
    if (turn % 256 == 0) ::sched_yield();  // for machines with one CPU
  }
}

std::uint64_t bytes_there(Shared& shared) {
  const unsigned asked = ++shared.asked;
  spin_until([&] { return shared.answered == asked; });
  return shared.resident_bytes;
}

double kib(std::uint64_t after, std::uint64_t before, std::size_t connections) {
  return (static_cast<double>(after) - static_cast<double>(before)) / 1024 /
         static_cast<double>(connections);
}

template <class Body>
double took_ms(Body body) {
  const double before = now_ns();
  body();
  return (now_ns() - before) / 1e6;
}

double put_ns(Side& side, std::size_t connections, bool quick) {
  constexpr std::size_t kPutsOfRound = 2000;
  const std::size_t puts = std::max(connections, kPutsOfRound);
  std::size_t next = 0;
  const auto round = [&] {
    for (std::size_t i = 0; i < puts; ++i) {
      side.put(next);
      next = next + 1 == connections ? 0 : next + 1;
    }
  };
  round();
  const double ns = median_ns(quick ? 2 : 21, round) / static_cast<double>(puts);
  side.finish();
  return ns;
}

double progress_ns(Side& side, bool quick) {
  constexpr unsigned kCalls = 4096;
  const auto calls = [&] {
    for (unsigned i = 0; i < kCalls; ++i) side.progress();
  };
  calls();
  return median_ns(quick ? 2 : 21, calls) / kCalls;
}

Figures measure_with(const Library& library, Line& line, Shared& shared, std::size_t connections,
                     bool quick) {
  Figures figures;
  const std::unique_ptr<Side> side = library.begin(line, connections);
  std::uint64_t here = resident_bytes();
  std::uint64_t there = bytes_there(shared);
  std::vector<double> times;
  times.reserve(connections);
  for (std::size_t i = 0; i < connections; ++i) {
    // The first connection allocates memory that all share, which is not counted.
    if (i == 1) {
      here = resident_bytes();
      there = bytes_there(shared);
    }
    times.push_back(took_ms([&] { side->connect(); }));
  }
  // All but the first; a single connection counts as one.
  const std::size_t counted = std::max<std::size_t>(connections, 2) - 1;
  spin_until([&] {
    side->progress();
    return shared.connections >= connections;
  });
  const auto some = static_cast<std::ptrdiff_t>(std::min(connections, Figures::kSome));
  figures.connect_first_ms = median({times.begin(), times.begin() + some});
  figures.connect_last_ms = median({times.end() - some, times.end()});
  figures.here_kib = kib(resident_bytes(), here, counted);
  figures.there_kib = kib(bytes_there(shared), there, counted);
  figures.put_ns = put_ns(*side, connections, quick);
  figures.progress_ns = progress_ns(*side, quick);
  times.clear();
  for (std::size_t i = 0; i < connections; ++i) times.push_back(took_ms([&] { side->close(i); }));
  figures.close_ms = median(times);
  return figures;
}

}  // namespace

Figures measure(const Library& library, std::size_t connections, bool quick) {
  Shared& shared = *new (shared_pages(sizeof(Shared))) Shared;
  // Each end of each run has a process of its own, so that memory of an earlier run is not counted.
  Peer process(Cpus::allowed().first, [&](Line& report) {
    Peer server(Cpus::allowed().second, [&](Line& line) { serve(library, line, shared); });
    const Figures figures = measure_with(library, server.line(), shared, connections, quick);
    report.send(figures);
    shared.over = true;
  });
  const auto figures = process.line().receive<Figures>();
  return figures;
}

Figures median_of(const std::vector<Figures>& runs) {
  Figures all;
  for (const auto member :
       {&Figures::connect_first_ms, &Figures::connect_last_ms, &Figures::put_ns,
        &Figures::progress_ns, &Figures::close_ms, &Figures::here_kib, &Figures::there_kib}) {
    std::vector<double> values;
    for (const Figures& run : runs) values.push_back(run.*member);
    all.*member = median(std::move(values));
  }
  return all;
}

void allow_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) fail("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
}

}  // namespace hbmwire::bench
