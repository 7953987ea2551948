// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/serve.hpp"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "tools/common/finish.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/remote/agent_process.hpp"
#include "tools/doctor/remote/conversation.hpp"
#include "tools/doctor/remote/datagram_echo.hpp"
#include "tools/doctor/remote/jobs.hpp"

namespace hbmwire::tools::doctor {
namespace {

// A run of 145 pairs takes a minute. Pairs that hang take longer.
constexpr auto kMostOfARun = std::chrono::minutes(3);
constexpr auto kSayWithin = std::chrono::seconds(5);
constexpr std::size_t kMostAgents = 300;
// A command has some hundred bytes: an address, and words.
constexpr std::size_t kLongestCommand = 4096;
// A silent doctor without a running process must make room for another one after this time.
constexpr auto kIdle = std::chrono::seconds(20);
// The most doctors that were turned away and have not received the answer yet.
constexpr std::size_t kMostLeaving = 8;

/// Serves one doctor of another machine, by these messages:
///
/// | from the other doctor                        |                                               |
/// |----------------------------------------------|-----------------------------------------------|
/// | {"start": N, "job": "plan" or "machine"}     | starts process N with a job of jobs.hpp       |
/// | {"start": N, "memory": LABEL}                | starts process N with an AgentProcess         |
/// | {"to": N, "tell": COMMAND}                   | passes the command to process N               |
/// | {"stop": N}                                  | ends process N                                |
/// | {"echo": true}                               | begins to answer datagrams: DatagramEcho      |
/// | {"bye": true}                                |                                               |
///
/// Values that a process sends go back as {"from": N, "said": VALUE}. Its end is reported as
/// {"from": N, "ended": HOW}.
class Client {
 public:
  Client(const ServeOptions& options, Plan plan, const Listener& listener,
         Conversation& conversation)
      : options_(options),
        plan_(std::move(plan)),
        listener_(listener),
        conversation_(conversation) {}

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Asks all processes to end before it waits for the first one.
  ~Client() {
    for (auto& [number, child] : children_) child.ask_to_end();
  }

  /// Handles messages from the other doctor and from the processes. Returns false after the end.
  Outcome<bool> look();

  void add_fds(std::vector<pollfd>& fds) const;

 private:
  /// Carries out one message. Returns false after {"bye": true}.
  Outcome<bool> obey(const Json& message);
  Outcome<void> start(unsigned number, const Json& message);
  Outcome<void> start_echo();
  /// Passes on what the process has sent. `child` is destroyed after its end.
  Outcome<void> relay(unsigned number, Child& child);
  [[nodiscard]] std::optional<Child::Body> body_of(const Json& message) const;

  Outcome<void> say(const Json& message) { return conversation_.say(message, kSayWithin); }

  const ServeOptions& options_;
  Plan plan_;
  const Listener& listener_;
  Conversation& conversation_;
  std::map<unsigned, Child> children_;
  std::optional<DatagramEcho> echo_;
  Deadline idle_ = Deadline::after(kIdle);
};

Outcome<bool> Client::look() {
  while (const auto heard = conversation_.look()) {
    if (heard->kind != Heard::Kind::value) return tl::make_unexpected(conversation_.why_ended());
    HBMWIRE_TRY_ASSIGN(const bool goes_on, obey(heard->value));
    if (!goes_on) return false;
    idle_ = Deadline::after(kIdle);
  }
  if (children_.empty() && idle_.passed())
    return fail("complete: it has asked for nothing for a while");
  std::vector<unsigned> numbers;  // copied, because relay() erases processes that have ended
  for (const auto& [number, child] : children_) numbers.push_back(number);
  for (const unsigned number : numbers) HBMWIRE_TRY(relay(number, children_.at(number)));
  if (echo_) echo_->answer();
  return true;
}

void Client::add_fds(std::vector<pollfd>& fds) const {
  for (const auto& [number, child] : children_)
    fds.push_back({.fd = child.fd(), .events = POLLIN, .revents = 0});
  if (!echo_) return;
  for (const int fd : echo_->fds())  // poll(2) ignores -1
    fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
}

Outcome<bool> Client::obey(const Json& message) {
  const auto number = [&](const char* key) -> std::optional<unsigned> {
    const auto value = number_at(message, key);
    return value ? std::optional(static_cast<unsigned>(*value & 0xffffffffU)) : std::nullopt;
  };
  if (const auto which = number("start")) HBMWIRE_TRY(start(*which, message));
  if (const auto which = number("to")) {
    const auto child = children_.find(*which);
    const Json& command = member(message, "tell");
    // A process that does not read is ended: it will answer no more.
    const bool told = child == children_.end() ||
                      (command.dump().size() <= kLongestCommand && child->second.tell(command));
    if (!told) {
      children_.erase(child);
      HBMWIRE_TRY(say({{"from", *which}, {"ended", "ended, since it does not take commands"}}));
    }
  }
  if (const auto which = number("stop")) children_.erase(*which);
  if (!member(message, "echo").is_null()) HBMWIRE_TRY(start_echo());
  return member(message, "bye").is_null();
}

/// The body of the process; empty if this machine has no such memory.
std::optional<Child::Body> Client::body_of(const Json& message) const {
  const std::string job = text_at(message, "job");
  if (job == "plan") return plan_job(options_.selection);
  if (job == "machine") return machine_job(/*scrub=*/true);
  const auto memory =
      std::ranges::find(plan_.memories, text_at(message, "memory"), &PlanMemory::label);
  if (memory == plan_.memories.end()) return std::nullopt;
  std::vector<std::string> nics;
  for (const PlanNic& nic : plan_.nics) nics.push_back(nic.name);
  return AgentProcess{.memory = *memory,
                      .nics = std::move(nics),
                      .step = options_.step,
                      .memcpy_bytes_per_second = plan_.memcpy_bytes_per_second};
}

Outcome<void> Client::start(unsigned number, const Json& message) {
  const auto body = body_of(message);
  if (!body || children_.size() >= kMostAgents || children_.contains(number))
    return say({{"from", number}, {"ended", "never started: there is no such memory"}});
  auto child = Child::start(*body);
  if (!child) return say({{"from", number}, {"ended", "never started: " + child.error().text}});
  children_.emplace(number, std::move(*child));
  return {};
}

Outcome<void> Client::start_echo() {
  Nonce nonce{};
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return say({{"echo", {{"error", "no random numbers"}}}});
  auto echo = DatagramEcho::create(listener_.port(), nonce);
  if (!echo) return say({{"echo", {{"error", describe(echo.error())}}}});
  echo_ = std::move(*echo);
  return say({{"echo",
               {{"nonce", to_base64({reinterpret_cast<const char*>(nonce.data()), nonce.size()})},
                {"port", echo_->port()},
                {"addresses", listener_.addresses().value_or(std::vector<std::string>())}}}});
}

Outcome<void> Client::relay(unsigned number, Child& child) {
  while (const auto heard = child.look()) {
    if (heard->kind != Heard::Kind::value) {
      const std::string how = child.end();
      children_.erase(number);
      return say({{"from", number}, {"ended", how}});
    }
    // Later messages find memories in this newer plan, since ports may have come up after the
    // server started.
    if (const Json& plan = member(heard->value, "plan"); !plan.is_null())
      plan_ = plan_from_json(plan).value_or(plan_);
    HBMWIRE_TRY(say({{"from", number}, {"said", heard->value}}));
  }
  return {};
}

/// A doctor that was turned away.
struct Leaving {
  Conversation conversation;
  Transfer closed;
};

class Server {
 public:
  Server(const ServeOptions& options, const Plan& plan, const Interrupt& interrupt, Output& output,
         ConversationContext& context, Listener& listener)
      : options_(options),
        plan_(plan),
        interrupt_(interrupt),
        output_(output),
        context_(context),
        listener_(listener),
        end_(Deadline::after(options.time)) {}

  Outcome<int> run();

 private:
  void serve_one(Endpoint endpoint);
  Outcome<void> attend(Client& client);
  void turn_one_away();
  Outcome<void> sleep(const Client& client, const Deadline& until);

  const ServeOptions& options_;
  const Plan& plan_;
  const Interrupt& interrupt_;
  Output& output_;
  ConversationContext& context_;
  Listener& listener_;
  Deadline end_;
  std::vector<Leaving> leaving_;
};

Outcome<int> Server::run() {
  while (true) {
    output_.notice(fmt::format("Waiting for a doctor on port {}...", listener_.port()));
    auto endpoint = listener_.accept({end_, interrupt_.fd()});
    if (endpoint) {
      serve_one(std::move(*endpoint));
      if (Interrupt::happened()) return kExitOk;
      continue;
    }
    if (endpoint.error().code == Errc::cancelled) return kExitOk;
    if (endpoint.error().code != Errc::timed_out) return tl::make_unexpected(endpoint.error());
    output_.line("The {} minutes of --minutes are over", options_.time.count());
    return kExitOk;
  }
}

void Server::serve_one(Endpoint endpoint) {
  const std::string peer = endpoint.peer();
  auto conversation = Conversation::with(context_, std::move(endpoint));
  if (!conversation) return output_.error(about_client(peer, conversation.error()));
  output_.line("{}: a doctor looks at this machine", peer);
  Client client(options_, plan_, listener_, *conversation);
  const auto done = attend(client);
  if (!done) {
    if (!done.error().peer_knows)
      (void)conversation->say({{"over", done.error().text}}, kSayWithin);
    output_.error(about_client(peer, done.error()));
  } else {
    output_.line("{}: done", peer);
  }
  conversation->close();
}

Outcome<void> Server::attend(Client& client) {
  const Deadline until = Deadline::after(kMostOfARun);
  while (true) {
    HBMWIRE_TRY_ASSIGN(const bool goes_on, client.look());
    if (!goes_on) return {};
    turn_one_away();
    HBMWIRE_TRY(sleep(client, until));
    if (Interrupt::happened()) return tl::make_unexpected(interrupted_failure());
    if (until.passed())
      return fail(
          fmt::format("complete: a run takes {} minutes at most; try fewer pairs with -d "
                      "and --memory",
                      kMostOfARun.count()));
  }
}

/// Tells a doctor that called meanwhile to come again later, without waiting for it.
void Server::turn_one_away() {
  std::erase_if(leaving_, [](Leaving& each) { return each.closed.done(); });
  if (leaving_.size() >= kMostLeaving) return;
  auto other = listener_.try_accept();
  if (!other) return;
  auto conversation = Conversation::with(context_, std::move(*other));
  if (!conversation) return;
  const Json why{{"over", "another doctor is being served; try again in a minute"}};
  (void)conversation->say(why, std::chrono::milliseconds(20));
  auto closed = conversation->start_close();
  if (closed) leaving_.push_back({std::move(*conversation), std::move(*closed)});
}

Outcome<void> Server::sleep(const Client& client, const Deadline& until) {
  HBMWIRE_TRY_ASSIGN(const bool idle, context_.worker.arm());
  if (!idle) return {};  // something has arrived meanwhile
  std::vector<pollfd> fds{{.fd = context_.worker.fd(), .events = POLLIN, .revents = 0},
                          {.fd = interrupt_.fd(), .events = POLLIN, .revents = 0}};
  client.add_fds(fds);
  // wake_after() is negative if the worker has no timer. Within a second, look() must see that the
  // client is idle.
  const auto wake = static_cast<int>(context_.worker.wake_after().count());
  ::poll(fds.data(), fds.size(), std::min(wake < 0 ? 1000 : wake, until.poll_timeout_ms()));
  return {};
}

/// The NICs and memories of this machine, listed once. Errors: a NIC or device of the selection
/// does not exist.
Outcome<Plan> plan_here(const ServeOptions& options, const Interrupt& interrupt) {
  HBMWIRE_TRY_ASSIGN(Child child, Child::start(plan_job(options.selection)));
  LocalAgent agent(std::move(child));
  return plan_of(agent,
                 {.whose = "this machine", .step = options.step, .cancel_fd = interrupt.fd()});
}

Outcome<int> run_server(const ServeOptions& options, const Interrupt& interrupt, Output& output) {
  HBMWIRE_TRY_ASSIGN(const Plan plan, plan_here(options, interrupt));
  HBMWIRE_TRY_ASSIGN(ConversationContext context, ConversationContext::create());
  HBMWIRE_TRY_ASSIGN(
      Listener listener,
      Listener::create(context.worker, {.address = options.bind,
                                        .port = options.port,
                                        .endpoint = ConversationContext::options()}));
  return Server(options, plan, interrupt, output, context, listener).run();
}

}  // namespace

int serve(const ServeOptions& options, const Interrupt& interrupt, Output& output) {
  const auto code = run_server(options, interrupt, output);
  return code ? *code : finish(output, code.error(), Json::object());
}

}  // namespace hbmwire::tools::doctor
