// SPDX-License-Identifier: MIT
#include "endpoint/remote_regions.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "connect/advertised.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

const char* excluded(Path path) noexcept {
  switch (path) {
    case Path::staged:
      return "the path policy excludes staging, which this memory needs, since no NIC of the peer "
             "reaches it; the peer's log says why";
    case Path::peer_memory:
      return "the path policy excludes peer memory, by which the peer's NIC reaches this memory; "
             "the peer's log says why";
    case Path::zero_copy:
      return "the path policy excludes zero-copy, by which the peer's NIC reaches this memory";
    default:
      return "the path policy excludes host, by which the peer's NIC reaches this memory";
  }
}

}  // namespace

void RemoteRegions::on_look_up(const wire::LookUp& message) {
  // A correct end has few questions under way (ask_next()). Answers that the peer does not take
  // must not pile up here.
  if (endpoint_.control.is_behind()) {
    endpoint_.break_protocol("the peer asks for more than it takes answers");
    return;
  }
  wire::Found answer{message.id, {}};
  if (advertised_) answer.key = advertised_->key_of(message.name);
  endpoint_.control.say(answer);
}

void RemoteRegions::on_found(const wire::Found& message) {
  // The peer also answers questions that were dropped meanwhile.
  if (unanswered_ != 0) --unanswered_;
  const auto question = std::ranges::find(questions_, message.id, &RegionQuestion::id);
  if (question != questions_.end()) (*question)->on_answer(message);
  ask_next();
}

/// Limits the questions under way: a peer takes more of them for an attack (on_look_up()).
void RemoteRegions::ask_next() {
  constexpr unsigned kAtOnce = 2;  // one is on its way while the other is answered
  while (unanswered_ < kAtOnce && endpoint_.phase == EndpointPhase::ready) {
    const auto next = std::ranges::find(questions_, false, &RegionQuestion::is_sent);
    if (next == questions_.end()) return;
    (*next)->send();
    ++unanswered_;
  }
}

Result<std::unique_ptr<RegionQuestion>> RemoteRegions::ask(std::string_view name,
                                                           const Deadline& until) {
  if (endpoint_.phase != EndpointPhase::ready) return tl::make_unexpected(endpoint_.not_ready());
  if (name.empty() || name.size() > wire::kMaxRegionName) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "a region's name has 1 to 255 bytes", name));
  }
  HBMWIRE_TRY(endpoint_.worker->check_process(Stage::connect));
  auto question =
      std::make_unique<RegionQuestion>(endpoint_.shared_from_this(), name, ++last_id_, until);
  questions_.push_back(question.get());
  ask_next();
  return question;
}

Result<RemoteRegionState> RemoteRegions::look_up(std::string_view name, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const auto question, ask(name, wait.deadline));
  question->go_by_clock();
  const auto asked = endpoint_.worker->drive(wait, [&] { return question->over(); });
  if (!question->over()) return tl::make_unexpected(asked.error());
  if (question->error()) return tl::make_unexpected(*question->error());
  return question->region();
}

RegionQuestion::RegionQuestion(std::shared_ptr<EndpointState> endpoint, std::string_view name,
                               std::uint32_t id, const Deadline& until)
    : Task(*endpoint->worker, until.when(), "question"),
      endpoint_(std::move(endpoint)),
      name_(name),
      id_(id),
      until_(until) {}

RegionQuestion::~RegionQuestion() { leave(); }

/// The program may keep an answer for long. It must keep neither the connection nor its worker
/// alive.
void RegionQuestion::leave() noexcept {
  if (!endpoint_) return;
  std::erase(endpoint_->remote_regions.questions_, this);
  endpoint_.reset();
}

void RegionQuestion::send() {
  const wire::LookUp asks{id_, name_};
  sent_ = true;
  endpoint_->control.say(asks);
}

void RegionQuestion::give_up(const Error& why) noexcept {
  fail(why);
  leave();
}

void RegionQuestion::look_after(Clock::time_point at) noexcept {
  if (over()) return;
  if (endpoint_->phase != EndpointPhase::ready) return give_up(endpoint_->not_ready());
  if (at < until_.when()) return;
  give_up(WorkerWaiting::out_of_time());
}

void RegionQuestion::on_answer(const wire::Found& answer) {
  if (over()) return;
  const auto region = resolve(answer);
  if (!region) return give_up(region.error());
  region_ = *region;
  succeed();
  leave();
}

Result<RemoteRegionState> RegionQuestion::resolve(const wire::Found& answer) const {
  if (answer.key.empty()) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                          "the peer advertises no memory of that name", name_,
                                          Hint::region_name));
  }
  HBMWIRE_TRY_ASSIGN(const RemoteKey key, RemoteKey::unpack(answer.key));
  return endpoint_->remote_regions.resolve(key);
}

Result<RemoteRegionState> RemoteRegions::resolve(const RemoteKey& key) const {
  if (!peer_) return tl::make_unexpected(endpoint_.not_ready());
  return endpoint_.paths.by_tcp() ? resolve_over_tcp(key) : resolve_by_nic(key);
}

/// Resolves a key by its token: the peer's process itself finds the memory by it.
Result<RemoteRegionState> RemoteRegions::resolve_over_tcp(const RemoteKey& key) const {
  HBMWIRE_TRY(key.check(*peer_));
  const MemoryKeyInfo& info = key.info();
  // If no engine of this process copies the memory, it goes by TCP as everything else does.
  return RemoteRegionState{
      .address = info.address,
      .length_bytes = info.length_bytes,
      .connection = endpoint_.movers.copy.region_of(info) ||
                            endpoint_.movers.ipc.may_share(info.type, Path::tcp)
                        ? endpoint_.number | kByEngine
                        : endpoint_.number,
      .access = info.access,
      .type = info.type,
      .path = Path::tcp,
      .remote_key = endpoint_.link->key_of(info.token),
      .token = info.token,
      .shared = endpoint_.movers.shared.find(info.type, info.token)};
}

Result<RemoteRegionState> RemoteRegions::resolve_by_nic(const RemoteKey& key) const {
  if (auto region = endpoint_.movers.copy.region_of(key.info())) {
    // If no engine copies it, the NIC carries it, if it reaches the memory.
    const auto memory = key.on(*peer_);
    if (memory) region->remote_key = memory->remote_key;
    if (!memory && memory.error().code != Errc::not_found)
      return tl::make_unexpected(memory.error());
    if (!memory) region->path = Path::staged;
    return *region;
  }
  const bool staged = key.info().path == Path::staged;
  RemoteMemory memory{key.info().address, key.info().length_bytes, 0};
  if (staged) {
    HBMWIRE_TRY(key.check(*peer_));
  } else {
    HBMWIRE_TRY_ASSIGN(memory, key.on(*peer_));
  }
  const bool shared = endpoint_.movers.ipc.may_share(key.info().type, key.info().path);
  const std::uint32_t neighbours = endpoint_.movers.shared.find(key.info().type, key.info().token);
  if (!endpoint_.paths.admits(key.info().path) && !shared && neighbours == 0) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::connect,
                                          excluded(key.info().path), endpoint_.peer,
                                          Hint::path_policy));
  }
  RemoteRegionState region{.address = memory.address,
                           .length_bytes = memory.length_bytes,
                           // The number of no connection, or the flag of engines: the data path
                           // recognises such memory by it.
                           .connection = shared   ? endpoint_.number | kByEngine
                                         : staged ? ~endpoint_.number
                                                  : endpoint_.number,
                           .access = key.info().access,
                           .type = key.info().type,
                           .path = key.info().path,
                           .remote_key = memory.remote_key,
                           .token = key.info().token,
                           .shared = neighbours};
  if (endpoint_.movers.rails && !staged) endpoint_.movers.rails->set_keys(region, key);
  if (!staged) endpoint_.wiring.late().set_keys(region, key);
  // The peer is awake now, since it was asked for the key a moment ago: a good time to connect the
  // lane. Engines that share memory may leave bytes to the NIC, so they need it, too.
  if (!staged && neighbours == 0) endpoint_.wiring.late().expect_need();
  return region;
}

}  // namespace hbmwire::detail
