// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"

#include "matrix_side.hpp"

namespace hbmwire::matrix {

namespace {

/// The memory of one row at the serving side, and the transfer that it waits for.
struct Served {
  Memory memory;
  MemoryKey key;
  Transfer expected;
};

class Server {
 public:
  Server(const Context& context, Channel channel)
      : context_(context),
        channel_(std::move(channel)),
        worker_(must(Worker::create(context))),
        listener_(must(Listener::create(worker_, {.address = "127.0.0.1"}))) {
    channel_.say(listener_.port());
    endpoint_.emplace(must(listener_.accept({Deadline::after(kPatience), -1})));
  }

  /// Returns false after the order to leave.
  bool step() {
    // Only this thread makes progress here.
    if (!channel_.readable(std::chrono::milliseconds(1))) {
      worker_.progress();
      return true;
    }
    const auto command = channel_.hear<Command>();
    if (command.what == Command::What::leave) return false;
    std::string wrong;
    try {
      if (command.what == Command::What::prepare) {
        prepare(command);
      } else {
        check(command);
      }
    } catch (const std::exception& error) {
      wrong = std::string("at the serving side: ") + error.what();
    }
    channel_.say_bytes(std::as_bytes(std::span(wrong)));
    if (wrong.empty() && command.what == Command::What::prepare)
      channel_.say_bytes(served_->key.bytes());
    return true;
  }

 private:
  [[nodiscard]] static bool is_get(const Command& command) {
    const Operation what = kOperations[command.row[operation]];
    return what == Operation::get || what == Operation::get_list;
  }

  void prepare(const Command& command) {
    const Column mine = is_get(command) ? source : target;
    served_.reset();
    Memory memory(context_, kMemoryTypes[command.row[mine]], kSizes[command.row[size]]);
    memory.fill(command.seed);
    if (is_atomic(kOperations[command.row[operation]])) memory.set_number(command.expected_number);
    MemoryKey key = must(MemoryKey::pack(memory.region()));
    served_.emplace(Served{std::move(memory), std::move(key), {}});
    expect_message(command);
  }

  void expect_message(const Command& command) {
    const Slice into = served_->memory.slice();
    switch (kOperations[command.row[operation]]) {
      case Operation::put_immediate:
        served_->expected = must(endpoint_->receive_immediate(into));
        break;
      case Operation::send:
        served_->expected = must(endpoint_->receive(into));
        break;
      case Operation::send_tagged:
        // The lowest bit of the tag is not compared.
        served_->expected =
            must(endpoint_->receive(into, {.tag = kTag, .mask = ~std::uint64_t{1}}));
        break;
      default:
        break;
    }
  }

  void check_message(const Command& command) {
    Transfer& message = served_->expected;
    must(message.wait(kPatience));
    const Operation what = kOperations[command.row[operation]];
    if (what == Operation::put_immediate && message.value() != kImmediate)
      throw std::runtime_error("the immediate is another one");
    if (what == Operation::send_tagged && message.value() != kTag)
      throw std::runtime_error("the tag is another one");
    if (what != Operation::put_immediate && message.bytes() != kSizes[command.row[size]])
      throw std::runtime_error("the message has another length");
  }

  void check(const Command& command) {
    if (served_->expected) check_message(command);
    if (is_atomic(kOperations[command.row[operation]])) {
      if (served_->memory.number() != command.expected_number)
        throw std::runtime_error("the number is another one");
    } else {
      served_->memory.expect(command.seed, is_get(command) ? command.seed : command.seed + 1);
    }
    served_.reset();
  }

  const Context& context_;
  Channel channel_;
  Worker worker_;
  Listener listener_;
  std::optional<Endpoint> endpoint_;
  std::optional<Served> served_;
};

}  // namespace

void serve(const Context& context, const std::function<void(std::uint16_t)>& ready) {
  const Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listening || ::bind(listening.get(), generic, length) != 0 ||
      ::listen(listening.get(), 1) != 0 || ::getsockname(listening.get(), generic, &length) != 0) {
    throw std::runtime_error("can't listen");
  }
  ready(ntohs(address.sin_port));
  Fd socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) throw std::runtime_error("can't accept");
  Server server(context, Channel(std::move(socket)));
  while (server.step()) {
  }
}

}  // namespace hbmwire::matrix
