// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "hbmwire/fd.hpp"

/// Servers of HTTP for tests: etcd itself, and one that answers as it is told.
namespace hbmwire::test {

/// A server on the loopback device. It calls `answer` for each connection after it has read the
/// request, and closes the connection afterwards.
class FakeStore {
 public:
  enum class Reads : std::uint8_t { request, nothing };

  /// One connection.
  class Visit {
   public:
    Visit(int socket, int stop) : socket_(socket), stop_(stop) {}

    /// Sends the bytes. Returns false if the client has gone, or the test ends.
    bool say(std::string_view bytes) const;

    /// Returns when the client or the test has ended, or after `time`.
    void wait(std::chrono::milliseconds time = std::chrono::minutes(1)) const;

   private:
    int socket_;
    int stop_;
  };

  using Answer = std::function<void(Visit&)>;

  explicit FakeStore(Answer answer, Reads reads = Reads::request);
  FakeStore(const FakeStore&) = delete;
  FakeStore& operator=(const FakeStore&) = delete;
  ~FakeStore();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  void serve() const;

  Answer answer_;
  Reads reads_;
  Fd stop_;
  Fd listening_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// A process of etcd with a store of its own, where etcd is installed.
class Etcd {
 public:
  Etcd();
  Etcd(const Etcd&) = delete;
  Etcd& operator=(const Etcd&) = delete;
  ~Etcd();

  [[nodiscard]] bool is_installed() const noexcept { return child_ > 0; }

  /// Whether it accepts connections within half a minute.
  [[nodiscard]] bool is_ready() const;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  void stop() const;
  void go_on() const;

 private:
  std::filesystem::path folder_;
  std::uint16_t port_ = 0;
  pid_t child_ = -1;
};

}  // namespace hbmwire::test
