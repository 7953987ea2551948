// SPDX-License-Identifier: MIT
#include "transport/tcp/lane.hpp"

#include <utility>
#include <vector>

#include "base/incarnation.hpp"
#include "transport/tcp/link.hpp"

namespace hbmwire::transport {

namespace {

/// A chain that stores the requests unchanged.
class TcpChain final : public PreparedChain {
 public:
  explicit TcpChain(std::span<const Request> requests)
      : PreparedChain(requests.size()), requests_(requests.begin(), requests.end()) {}

  TcpChain(const TcpChain&) = delete;
  TcpChain& operator=(const TcpChain&) = delete;
  ~TcpChain() override = default;

  [[nodiscard]] std::span<const Request> requests() const noexcept {
    return std::span(requests_).first(size());
  }

  void aim(std::size_t index, const Aim& at) noexcept override {
    Operation& operation = requests_[index].operation;
    operation.local = at.local;
    operation.local_key = at.local_key;
    operation.remote = at.remote;
    operation.remote_key = at.remote_key;
    operation.length = at.length;
  }

  void close(std::uint32_t size, Opcode opcode, std::uint64_t part,
             std::uint64_t last) noexcept override {
    for (std::uint32_t i = 0; i < size; ++i) {
      requests_[i].operation.opcode = opcode;
      requests_[i].id = i + 1 == size ? last : part;
      requests_[i].signaled = i + 1 == size;
    }
    set_size(size);
  }

 private:
  std::vector<Request> requests_;
};

}  // namespace

TcpLane::TcpLane(TcpLink& link, CompletionQueue& completions, bool control)
    : Lane(completions, /*by_nic=*/false), link_(link), control_(control) {
  local_.queue_pair = control ? 1 : 0;  // no queue pair: see EndpointOffer::over_tcp()
  local_.max_message_bytes = TcpLink::kMaxMessage;
  local_.incarnation = incarnation();
}

int TcpLane::post(const Operation& operation, std::uint64_t id) noexcept {
  const int result = link_.post(operation, id, /*signaled=*/true);
  link_.send();
  return result;
}

int TcpLane::post(const Message& message, std::uint64_t id) noexcept {
  const int result = link_.post(message, id, control_);
  link_.send();
  return result;
}

int TcpLane::post_chain(std::span<const Request> chain, bool fenced, bool& begun) noexcept {
  int result = 0;
  begun = false;
  for (const Request& request : chain) {
    Operation operation = request.operation;
    operation.fenced = operation.fenced || std::exchange(fenced, false);
    result = link_.post(operation, request.id, request.signaled);
    if (result != 0) break;
    begun = true;
  }
  begun = begun && result != 0;
  link_.send();
  return result;
}

int TcpLane::post(std::span<const Request> chain, bool& begun) noexcept {
  return post_chain(chain, /*fenced=*/false, begun);
}

std::unique_ptr<PreparedChain> TcpLane::prepare(std::span<const Request> requests) const {
  return std::make_unique<TcpChain>(requests);
}

int TcpLane::post(PreparedChain& chain, bool fenced, bool& begun) noexcept {
  return post_chain(static_cast<TcpChain&>(chain).requests(), fenced, begun);
}

int TcpLane::post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept {
  return link_.post_receives(receives, control_, posted);
}

Result<void> TcpLane::to_error() {
  link_.break_off(control_);
  return {};
}

void TcpLane::cut() noexcept { link_.cut(); }

}  // namespace hbmwire::transport
