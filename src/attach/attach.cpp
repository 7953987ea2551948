// SPDX-License-Identifier: MIT
#include "hbmwire/attach.hpp"

#include <poll.h>
#include <unistd.h>

#include "hbmwire/context.hpp"

#include "base/guarded.hpp"
#include "wire/attach_messages.hpp"
#include "wire/fd_socket.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire {

namespace {

constexpr const char* kSubject = "attach";

Error failure(Errc code, const char* what, Hint hint) {
  return make_error(code, Stage::connect, what, kSubject, hint);
}

/// The exporter's reply, and the descriptor that came with it.
struct Grant {
  wire::AttachReply reply;
  Fd dmabuf;
};

Result<void> check_status(wire::AttachReply::Status status) {
  using enum wire::AttachReply::Status;
  switch (status) {
    case granted:
      return {};
    case other_user:
      return tl::make_unexpected(failure(Errc::permission_denied,
                                         "the exporter belongs to another user",
                                         Hint::attach_other_user));
    case other_version:
      return tl::make_unexpected(failure(Errc::protocol,
                                         "the exporter speaks another version of the protocol",
                                         Hint::other_version));
    case no_descriptors:
      return tl::make_unexpected(failure(Errc::exhausted,
                                         "the exporter has no descriptors left for this end",
                                         Hint::descriptor_limit));
    case unknown:
    default:
      return tl::make_unexpected(failure(Errc::not_found, "nothing is published under this secret",
                                         Hint::attach_withdrawn));
  }
}

/// The grant, or the error that a refusal stands for. A grant must come with exactly one
/// descriptor.
Result<Grant> check(const wire::AttachReply& reply, wire::ReceivedFds& received) {
  HBMWIRE_TRY(check_status(reply.status));
  if (received.count == 1) return Grant{reply, std::move(received.fds.front())};
  return tl::make_unexpected(
      failure(Errc::protocol, "the exporter sent no descriptor", Hint::not_hbmwire));
}

Result<Grant> receive_reply(int socket, const Wait& wait) {
  wire::AttachAssembly<wire::AttachReply> assembly;
  wire::ReceivedFds received;
  for (;;) {
    HBMWIRE_TRY_ASSIGN(const auto came, wire::receive_with_fd(socket, assembly.room(), received));
    if (!came) {
      auto ready = wire::wait_for(socket, POLLIN, wait, "no answer from the exporter", kSubject);
      if (ready) continue;
      Error error = ready.error();
      if (error.code == Errc::timed_out) error.hint = Hint::attach_silent;
      return tl::make_unexpected(error);
    }
    if (*came == 0) {
      return tl::make_unexpected(
          failure(Errc::peer_failed, "the exporter closed the connection", Hint::attach_gone));
    }
    HBMWIRE_TRY_ASSIGN(const auto reply, assembly.advance(*came));
    if (reply) return check(*reply, received);
  }
}

Result<Grant> ask(const AttachAddress& from, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const Fd socket, wire::connect_abstract(from.socket, wait));
  // Any process may bind an abstract name that is free. The secret goes only to a process of the
  // same user.
  HBMWIRE_TRY_ASSIGN(const uid_t user, wire::peer_user(socket.get()));
  if (user != ::geteuid()) {
    HBMWIRE_TRY(check_status(wire::AttachReply::Status::other_user));  // returns that status' error
  }
  const auto request = wire::encode(wire::AttachRequest{.secret = from.secret});
  // -1: without a descriptor.
  HBMWIRE_TRY_ASSIGN(const bool sent, wire::send_with_fd(socket.get(), request, -1));
  if (!sent) {
    return tl::make_unexpected(
        failure(Errc::peer_failed, "the request found no room", Hint::attach_gone));
  }
  return receive_reply(socket.get(), wait);
}

}  // namespace

Result<AttachedMemory> attach(const Context& context, const AttachAddress& from, const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<AttachedMemory> {
    HBMWIRE_TRY_ASSIGN(const Grant grant, ask(from, wait));
    const wire::AttachReply& reply = grant.reply;
    HBMWIRE_TRY_ASSIGN(auto memory, context.import_dmabuf({.fd = grant.dmabuf.get(),
                                                           .offset_bytes = reply.offset_bytes,
                                                           .length_bytes = reply.length_bytes,
                                                           .mapping = nullptr,
                                                           .read_only = !reply.writable}));
    return AttachedMemory{.memory = std::move(memory),
                          .type = reply.type,
                          .exporter_address = reply.base_address + reply.offset_bytes,
                          .exporter_generation = reply.generation,
                          .writable = reply.writable};
  });
}

}  // namespace hbmwire
