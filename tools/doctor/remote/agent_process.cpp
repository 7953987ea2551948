// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/agent_process.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/settings.hpp"

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/pairs/contents.hpp"
#include "tools/doctor/pairs/open_memory.hpp"
#include "tools/doctor/pairs/timing.hpp"
#include "tools/doctor/pairs/traffic.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Encodes the address of a queue pair and its memory as text for the other end.
std::string text_of(const wire::Address& address) {
  const auto frame = wire::encode(address);
  return to_base64({reinterpret_cast<const char*>(frame.data()), frame.size()});
}

/// Empty if the text is no address.
std::optional<wire::Address> address_in(const std::string& text) {
  const auto frame = from_base64(text);
  if (!frame || frame->size() < wire::kFrameHeaderBytes) return std::nullopt;
  const auto bytes = std::as_bytes(std::span(*frame));
  // A frame begins with its length (4 bytes) and its type (2 bytes).
  const auto type = static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[4]) << 8U |
                                               std::to_integer<unsigned>(bytes[5]));
  const auto message = wire::decode(type, bytes.subspan(wire::kFrameHeaderBytes));
  if (!message) return std::nullopt;
  const auto* const address = std::get_if<wire::Address>(&*message);
  return address == nullptr ? std::nullopt : std::optional(*address);
}

tl::unexpected<Error> not_in_turn(const char* what) {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::connect, what));
}

/// The queue pair of one NIC. Members are destroyed in reverse order.
struct QueuePair {
  Context context;
  Nic nic;
  Region region;
  Buffer buffer;
  std::optional<Connection> connection;  // until it is connected
  std::optional<Traffic> traffic;        // after it was connected
};

class AgentState {
 public:
  AgentState(const AgentProcess& process, OpenMemory memory, int cancel_fd)
      : process_(process), memory_(std::move(memory)), cancel_fd_(cancel_fd) {}

  Json obey(const Json& command) {
    const auto answer = act(command);
    return answer ? *answer : Json{{"error", to_json(std::optional(error_of(answer.error())))}};
  }

 private:
  Result<Json> act(const Json& command);
  Result<Json> take_nic(const Json& command);
  Result<Json> connect(const Json& command);
  Result<Json> compare(const Json& command);
  Result<Json> time(const Json& command);
  Result<Json> describe(const QueuePair& pair) const;
  Contents contents();

  [[nodiscard]] Wait wait() const { return {process_.step, cancel_fd_}; }

  const AgentProcess& process_;
  OpenMemory memory_;
  int cancel_fd_;
  std::optional<QueuePair> pair_;
};

// The longest measurement of a pair, in milliseconds.
constexpr std::uint64_t kMostMs = 300;

const Json kDone{{"done", true}};

/// 0 if the member is missing or is no number of 32 bits.
std::uint32_t small_number_at(const Json& command, const char* key) {
  const std::uint64_t number = number_at(command, key).value_or(0);
  return number <= 0xffffffffU ? static_cast<std::uint32_t>(number) : 0;
}

Pattern pattern_in(const Json& command) {
  return {.seed = small_number_at(command, "seed"), .tag = Tag::write};
}

Result<Json> AgentState::act(const Json& command) {
  const std::string what = text_at(command, "do");
  if (what == "nic") return take_nic(command);
  if (what == "drop") {
    pair_.reset();
    return kDone;
  }
  if (!pair_) return not_in_turn("no NIC was named");
  if (what == "connect") return connect(command);
  if (what == "fill") {
    HBMWIRE_TRY(contents().fill(0, pattern_in(command)));
    return kDone;
  }
  if (what == "poison") {
    HBMWIRE_TRY(contents().poison(kWindowBytes, pattern_in(command)));
    return kDone;
  }
  if (what == "compare") return compare(command);
  if (!pair_->traffic) return not_in_turn("not connected");
  if (what == "move") {
    HBMWIRE_TRY(pair_->traffic->move_window(flag_at(command, "write").value_or(true)));
    return kDone;
  }
  if (what == "time") return time(command);
  return not_in_turn("no such command");
}

Contents AgentState::contents() {
  Buffer& buffer = pair_->buffer;
  return {[this, &buffer](auto at, auto from) { return buffer.write(at, from, wait()); },
          [this, &buffer](auto at, auto to) { return buffer.read(at, to, wait()); }};
}

Result<Json> AgentState::take_nic(const Json& command) {
  pair_.reset();
  const std::string name = text_at(command, "nic");
  if (std::ranges::find(process_.nics, name) == process_.nics.end())
    return not_in_turn("no NIC of the plan");
  HBMWIRE_TRY_ASSIGN(Context context,
                     Context::create({.memory = {MemoryType::host}, .nics = {name}}));
  HBMWIRE_TRY_ASSIGN(const auto nics, context.open_nics());
  HBMWIRE_TRY_ASSIGN(Region region, context.register_memory(memory_.allocation, kPairAccess));
  if (region.path() > Path::peer_memory) return Json{{"staged", to_json(refusal_of(region))}};
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(region));
  LinkOptions link = context.settings().endpoint.link;
  const std::uint32_t mtu = small_number_at(command, "mtu");
  if (mtu != 0) link.mtu_bytes = mtu;
  HBMWIRE_TRY_ASSIGN(
      Connection connection,
      Connection::create(nics.front(), {.send_depth = kDepth, .receive_depth = 1, .link = link}));
  pair_.emplace(QueuePair{.context = std::move(context),
                          .nic = nics.front(),
                          .region = std::move(region),
                          .buffer = std::move(buffer),
                          .connection = std::move(connection),
                          .traffic = std::nullopt});
  return describe(*pair_);
}

Result<Json> AgentState::describe(const QueuePair& pair) const {
  const Possible possible = possible_between(memory_, pair.nic, process_.memcpy_bytes_per_second);
  const wire::Address address{.connection = pair.connection->local(),
                              .memory = pair.region.remote(pair.nic)};
  return Json{{"end", text_of(address)},       {"path", to_string(pair.region.path())},
              {"distance", possible.distance}, {"possible", possible.bytes_per_second},
              {"limit", possible.limit},       {"mtu", address.connection.mtu_bytes}};
}

Result<Json> AgentState::connect(const Json& command) {
  const auto peer = address_in(text_at(command, "end"));
  if (!peer || peer->memory.length_bytes < 2 * kWindowBytes || !pair_->connection)
    return not_in_turn("no address of a queue pair");
  HBMWIRE_TRY(pair_->connection->connect(peer->connection));
  pair_->traffic.emplace(std::move(*pair_->connection), pair_->region, peer->memory, process_.step,
                         cancel_fd_);
  pair_->connection.reset();
  return kDone;
}

Result<Json> AgentState::compare(const Json& command) {
  HBMWIRE_TRY_ASSIGN(const Comparison found,
                     contents().compare_with(kWindowBytes, pattern_in(command)));
  Json answer{{"compared", found.bytes}, {"wrong", found.wrong_bytes}};
  if (found.wrong_bytes == 0) return answer;
  const std::string what = wire::printable(text_at(command, "what"));
  answer["differs"] = to_json(std::optional(
      wrong_bytes(pair_->nic.info().name, process_.memory.label, what.c_str(), found)));
  return answer;
}

Result<Json> AgentState::time(const Json& command) {
  const std::uint64_t asked = number_at(command, "ms").value_or(kMostMs);
  constexpr std::uint64_t kLeastMs = 5;  // Traffic::measure() divides the time into five parts
  const std::chrono::milliseconds time(std::clamp<std::uint64_t>(asked, kLeastMs, kMostMs));
  HBMWIRE_TRY_ASSIGN(const Figures figures, pair_->traffic->measure(time));
  return Json{{"write", figures.write_bytes_per_second},
              {"read", figures.read_bytes_per_second},
              {"latency", figures.latency_ns}};
}

}  // namespace

void AgentProcess::operator()(Voice& voice, int cancel_fd) const {
  auto open = open_memory(memory);
  if (!open) {
    voice.say({{"error", to_json(std::optional(error_of(open.error())))}});
    return;
  }
  voice.say({{"open", true}});
  AgentState state(*this, std::move(*open), cancel_fd);
  while (true) {
    const Heard heard = voice.listen(Deadline::never(), cancel_fd);
    if (heard.kind != Heard::Kind::value) return;
    voice.say(state.obey(heard.value));
  }
}

}  // namespace hbmwire::tools::doctor
