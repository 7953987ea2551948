// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "ends.hpp"

namespace hbmwire::test {

/// A listener on this machine, with its worker.
struct ListeningPort {
  explicit ListeningPort(ListenerOptions options = {}) {
    options.address = "127.0.0.1";
    listener.emplace(value(Listener::create(worker, options)));
  }

  [[nodiscard]] std::string at() const { return "127.0.0.1:" + std::to_string(listener->port()); }

  void drive(std::chrono::nanoseconds time) {
    for (const Deadline until = Deadline::after(time); !until.passed();)
      static_cast<void>(worker.wait(within(5ms)));
  }

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  std::optional<Listener> listener;
};

}  // namespace hbmwire::test
