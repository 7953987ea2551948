// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::transport {
struct Completion;
}

namespace hbmwire::detail {

struct ReceiveBuffer;

/// The part of an endpoint that takes the messages of a lane.
class Receiver {
 public:
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// A receive has completed, successfully or not. `buffer` belongs to the receiver until it calls
  /// Receives::post().
  virtual void on_received(ReceiveBuffer& buffer,
                           const transport::Completion& completion) noexcept = 0;

 protected:
  Receiver() = default;
  ~Receiver() = default;
};

}  // namespace hbmwire::detail
