// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "worker.hpp"

namespace hbmwire::python {

/// hbmwire.Message.
class MessageObject {
 public:
  MessageObject(SharedWorker worker, IncomingMessage message)
      : worker_(std::move(worker)), message_(std::move(message)) {}

  /// Raises InvalidArgument if it was received or closed.
  [[nodiscard]] IncomingMessage& open();

  [[nodiscard]] const SharedWorker& worker() const noexcept { return worker_; }

  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(message_); }

  void close() noexcept { message_.reset(); }

 private:
  SharedWorker worker_;
  IncomingMessage message_;
};

}  // namespace hbmwire::python
