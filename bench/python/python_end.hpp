// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "bench/endpoint/bytes.hpp"
#include "bench/python/cpp_end.hpp"

namespace hbmwire::bench {

/// The Python side: puts.py in a process of its own, run by the interpreter that users have, on the
/// CPU of this process, with its memory and connected to its peer. It sleeps until it is asked. For
/// the peer, whose Place listens, it is a CppEnd.
class PythonEnd {
 public:
  explicit PythonEnd(const Place& place);
  PythonEnd(const PythonEnd&) = delete;
  PythonEnd& operator=(const PythonEnd&) = delete;
  PythonEnd(PythonEnd&&) = delete;
  PythonEnd& operator=(PythonEnd&&) = delete;
  ~PythonEnd();

  /// Lets puts.py do the work with this name `count` times in each chunk. Returns the nanoseconds
  /// of the median chunk.
  double chunk_ns(std::string_view work, std::size_t bytes, unsigned chunks, unsigned count);

  /// As CppEnd::send_all(), for the peer.
  void send_all(std::uint64_t times) { peer_->send_all(times); }

 private:
  /// Starts puts.py, and passes the keys of both sides on.
  void start(const Place& place);

  std::optional<CppEnd> peer_;
  std::unique_ptr<Line> line_;
  pid_t pid_ = -1;
};

}  // namespace hbmwire::bench
