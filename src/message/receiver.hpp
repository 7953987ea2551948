// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::transport {
struct Completion;
}

namespace hbmwire::detail {

struct ReceiveBuffer;

/// The end of a lane, which takes what comes by it.
class Receiver {
 public:
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// A receive has completed, well or not: `buffer` is the receiver's until Receives::post().
  virtual void on_received(ReceiveBuffer& buffer,
                           const transport::Completion& completion) noexcept = 0;

 protected:
  Receiver() = default;
  ~Receiver() = default;
};

}  // namespace hbmwire::detail
