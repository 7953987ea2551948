// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "worker.hpp"

namespace hbmwire::python {

/// hbmwire.Message.
class MessageObject {
 public:
  MessageObject(SharedWorker worker, IncomingMessage message)
      : worker_(std::move(worker)),
        message_(std::move(message)),
        endpoint_id_(message_.endpoint_id()),
        tag_(message_.tag()),
        length_(message_.length_bytes()) {}

  /// Raises InvalidArgument if the message was received or closed.
  [[nodiscard]] IncomingMessage& open();

  [[nodiscard]] const SharedWorker& worker() const noexcept { return worker_; }

  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(message_); }

  void close() noexcept { message_.reset(); }

  // Still known after the message was received or closed.
  [[nodiscard]] std::uint64_t endpoint_id() const noexcept { return endpoint_id_; }

  [[nodiscard]] std::optional<std::uint64_t> tag() const noexcept { return tag_; }

  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }

 private:
  SharedWorker worker_;
  IncomingMessage message_;
  std::uint64_t endpoint_id_;
  std::optional<std::uint64_t> tag_;
  std::uint64_t length_;
};

}  // namespace hbmwire::python
