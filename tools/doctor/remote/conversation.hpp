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

/// The means of conversations on each side: endpoints of TCP alone, so that it works where
/// RDMA does not, and opens no NIC and no accelerator. Members go in reverse order.
struct ConversationContext {
  Context context;
  Worker worker;
  Region chunk;  ///< a piece of a message on its way

  static Outcome<ConversationContext> create();

  /// For connect() and listeners: the user's pre-shared key (HBMWIRE_PRE_SHARED_KEY_FILE) counts,
  /// as for any endpoint.
  [[nodiscard]] static EndpointOptions options();
};

/// JSON messages between the doctors of two machines, over an endpoint. What comes is foreign: it
/// is parsed within the bounds of an archive (record.hpp). One thread, which must listen or look
/// now and then. `context` must outlive it.
class Conversation {
 public:
  /// Calls a `doctor --serve`. Errors: as Endpoint::connect(); another program of hbmwire listens
  /// there.
  static Outcome<Conversation> connect(ConversationContext& context, const std::string& place,
                                       const Wait& wait);

  /// With an endpoint that a listener of the context's worker has accepted. Errors: the peer is
  /// no doctor.
  static Outcome<Conversation> with(ConversationContext& context, Endpoint endpoint);

  Outcome<void> say(const Json& message, const Wait& wait);

  /// The next message, or why there is none; as JsonLines::listen().
  Heard listen(const Deadline& until, int cancel_fd);

  /// The next message that is here, or the end, without waiting.
  std::optional<Heard> look();

  /// Why it ended; after Heard::Kind::ended.
  [[nodiscard]] Failure why_ended() const;

  /// Waits a moment until the peer has taken what was said, and ends.
  void close();

  /// The same without waiting: the transfer is over when it has. Errors: as
  /// Endpoint::start_close().
  Outcome<Transfer> start_close();

  [[nodiscard]] const std::string& peer() const noexcept { return endpoint_.peer(); }

 private:
  Conversation(ConversationContext& context, Endpoint endpoint) noexcept
      : context_(&context), endpoint_(std::move(endpoint)) {}

  std::optional<Heard> take_message();

  ConversationContext* context_;
  Endpoint endpoint_;
  std::string text_;      // of a message that is not all here
  bool foreign_ = false;  // it sent what is no message
};

}  // namespace hbmwire::tools::doctor
