// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "hbmwire/context.hpp"
#include "hbmwire/deadline.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/region.hpp"
#include "hbmwire/worker.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/json_lines.hpp"

namespace hbmwire::tools::doctor {

/// The objects for conversations on each side. The endpoints use only TCP, so that they work if
/// RDMA does not, and no NIC or accelerator is opened. Members are destroyed in reverse order.
struct ConversationContext {
  Context context;
  Worker worker;
  Region chunk;  ///< holds a piece of a message that is being sent

  static Outcome<ConversationContext> create();

  /// Options for connect() and listeners. The user's pre-shared key (HBMWIRE_PRE_SHARED_KEY_FILE)
  /// applies as for any endpoint.
  [[nodiscard]] static EndpointOptions options();
};

/// JSON messages between the doctors of two machines, over an endpoint. Received messages are
/// foreign, and are parsed within the limits of an archive (record.hpp). Not thread-safe; the
/// caller must listen or look from time to time. `context` must outlive it.
class Conversation {
 public:
  /// Calls a `doctor --serve`. Errors: those of Endpoint::connect(); another hbmwire program
  /// listens there.
  static Outcome<Conversation> connect(ConversationContext& context, const std::string& place,
                                       const Wait& wait);

  /// Takes over an endpoint that a listener of the context's worker has accepted. Errors: the peer
  /// is no doctor.
  static Outcome<Conversation> with(ConversationContext& context, Endpoint endpoint);

  Outcome<void> say(const Json& message, const Wait& wait);

  /// The next message, or the reason why there is none; as in JsonLines::listen().
  Heard listen(const Deadline& until, int cancel_fd);

  /// The next message that has arrived, or the end. Never waits.
  std::optional<Heard> look();

  /// The reason why it ended; valid after Heard::Kind::ended.
  [[nodiscard]] Failure why_ended() const;

  /// Waits a moment until the peer has received all messages, and closes.
  void close();

  /// Like close(), but does not wait: the transfer ends when the peer has received them. Errors:
  /// those of Endpoint::start_close().
  Outcome<Transfer> start_close();

  [[nodiscard]] const std::string& peer() const noexcept { return endpoint_.peer(); }

 private:
  Conversation(ConversationContext& context, Endpoint endpoint) noexcept
      : context_(&context), endpoint_(std::move(endpoint)) {}

  std::optional<Heard> take_message();

  ConversationContext* context_;
  Endpoint endpoint_;
  std::string text_;      // of a message that has not arrived completely
  bool foreign_ = false;  // the peer sent something that is no message
};

}  // namespace hbmwire::tools::doctor
