// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/conversation.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "tools/doctor/evidence/parsed_json.hpp"
#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Both ends send this in the handshake. The number is the version of the messages.
constexpr std::string_view kHello = "hbmwire doctor 1";

// Bytes of a piece of a message: the most that an endpoint may send eagerly, since
// EndpointOptions::eager_bytes must not exceed WorkerOptions::eager_bytes, whose default this is.
constexpr std::size_t kChunkBytes = 8192;
constexpr std::uint64_t kMore = 1;  // the tag of each piece but the last
constexpr std::uint64_t kLast = 2;

constexpr auto kGoodbye = std::chrono::milliseconds(500);

// The largest message: an archive, and the JSON around it.
constexpr std::size_t kMostBytes = kMaxArchiveBytes + (std::size_t{64} << 10);

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_over(const Endpoint& endpoint) {
  const EndpointPhase phase = endpoint.phase();
  return phase == EndpointPhase::failed || phase == EndpointPhase::closed;
}

}  // namespace

Outcome<ConversationContext> ConversationContext::create() {
  HBMWIRE_TRY_ASSIGN(Context context, Context::create({.memory = {MemoryType::host},
                                                       .nics = {"none"},
                                                       .paths = {.allow = {Path::tcp}}}));
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(Region chunk,
                     context.allocate_region(MemoryType::host, kChunkBytes, Access::local_write));
  return ConversationContext{std::move(context), std::move(worker), std::move(chunk)};
}

EndpointOptions ConversationContext::options() {
  const auto hello = bytes_of(kHello);
  EndpointOptions options;
  options.eager_bytes = kChunkBytes;
  // The small MTU gets through networks that lose large packets, which users ask the doctor about.
  options.link.mtu_bytes = 1024;
  options.messages = MessageMode::handed_out;
  options.hello.assign(hello.begin(), hello.end());
  return options;
}

Outcome<Conversation> Conversation::connect(ConversationContext& context, const std::string& place,
                                            const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(Endpoint endpoint, Endpoint::connect(context.worker, place, wait,
                                                          ConversationContext::options()));
  return with(context, std::move(endpoint));
}

Outcome<Conversation> Conversation::with(ConversationContext& context, Endpoint endpoint) {
  if (text_of(endpoint.peer_hello()) == kHello) return Conversation(context, std::move(endpoint));
  return fail(
      fmt::format("connect: {}: no doctor of this version is there, but another program of "
                  "hbmwire; start `hbmwire doctor --serve` of the same version at both ends",
                  endpoint.peer()));
}

Outcome<void> Conversation::say(const Json& message, const Wait& wait) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::span<const std::byte> rest = bytes_of(text);
  do {
    const auto chunk = rest.first(std::min(rest.size(), kChunkBytes));
    rest = rest.subspan(chunk.size());
    std::ranges::copy(chunk, context_->chunk.host_bytes().begin());
    HBMWIRE_TRY_ASSIGN(Transfer sent, endpoint_.send(context_->chunk.slice(0, chunk.size()),
                                                     rest.empty() ? kLast : kMore));
    HBMWIRE_TRY(sent.wait(wait));
  } while (!rest.empty());
  return {};
}

/// The next whole message among the pieces that have arrived.
std::optional<Heard> Conversation::take_message() {
  while (const auto piece = context_->worker.next_message()) {
    if (piece->endpoint_id() != endpoint_.id()) continue;  // from another caller
    text_ += text_of(piece->bytes());
    // A doctor sends no piece whose bytes would have to be fetched.
    foreign_ = foreign_ || !piece->is_here() || text_.size() > kMostBytes;
    if (foreign_) text_.clear();
    if (foreign_ || piece->tag() == kMore) continue;
    const auto value = parse_bounded(text_);
    text_.clear();
    if (value) return Heard{.kind = Heard::Kind::value, .value = Json(*value)};
    foreign_ = true;
  }
  return std::nullopt;
}

std::optional<Heard> Conversation::look() {
  // Asked before the pieces are taken: those that came before the end count.
  const bool over = is_over(endpoint_);
  if (auto heard = take_message()) return heard;
  if (over || foreign_) return Heard{.kind = Heard::Kind::ended};
  return std::nullopt;
}

Heard Conversation::listen(const Deadline& until, int cancel_fd) {
  while (true) {
    if (auto heard = look()) return std::move(*heard);
    const auto woken = context_->worker.wait({until, cancel_fd});
    if (woken) continue;
    if (woken.error().code == Errc::cancelled) return {.kind = Heard::Kind::interrupted};
    if (until.passed()) return {.kind = Heard::Kind::silent};
  }
}

Failure Conversation::why_ended() const {
  if (foreign_) {
    return Failure(
        fmt::format("complete: {}: the bytes that came are no message of a doctor; use the same "
                    "version of hbmwire at both ends",
                    endpoint_.peer()));
  }
  if (const auto error = endpoint_.error()) return *error;
  return Failure(fmt::format("complete: {}: the other doctor has hung up; look there for why",
                             endpoint_.peer()));
}

void Conversation::close() {
  // A failure does not matter: the peer may be busy with a pair, and nothing depends on its
  // goodbye.
  (void)endpoint_.close(kGoodbye);
}

Outcome<Transfer> Conversation::start_close() {
  HBMWIRE_TRY_ASSIGN(Transfer closed, endpoint_.start_close(Deadline::after(kGoodbye)));
  return closed;
}

}  // namespace hbmwire::tools::doctor
