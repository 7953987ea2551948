// SPDX-License-Identifier: MIT
#include <array>
#include <chrono>
#include <optional>

#include "bench/endpoint/our_end.hpp"
#include "bench/scale/side.hpp"

namespace hbmwire::bench {
namespace {

constexpr Access kPageAccess = Access::local_write | Access::remote_write | Access::remote_read;
constexpr std::size_t kBytes = 4096;

Wait minute() { return std::chrono::seconds(60); }

/// A worker with the default options, and a page of memory like a card's.
struct OurBase {
  SharedMemory memory = SharedMemory(kBytes);
  Context context = need(Context::create());
  Worker worker = need(Worker::create(context));
  Region region = need(context.register_dmabuf(
      {.fd = memory.fd(), .length_bytes = kBytes, .mapping = memory.data()}, kPageAccess));
};

/// The server's first message: how to connect to it, and the key to its page.
struct Meeting {
  std::uint16_t port = 0;
  std::uint32_t key_size = 0;
  std::array<std::byte, 1024> key{};
};

class OurServer : public Server {
 public:
  explicit OurServer(Line& line)
      : key_(need(MemoryKey::pack(base_.region))),
        listener_(need(Listener::create(base_.worker,
                                        {.address = "127.0.0.1", .endpoint = keyed_options()}))) {
    Meeting meeting{.port = listener_.port(),
                    .key_size = static_cast<std::uint32_t>(key_.bytes().size())};
    std::copy(key_.bytes().begin(), key_.bytes().end(), meeting.key.begin());
    line.send(meeting);
  }

  void progress() override {
    base_.worker.progress();
    if (auto endpoint = listener_.try_accept()) endpoints_.push_back(std::move(*endpoint));
  }

  [[nodiscard]] std::size_t connections() const override { return endpoints_.size(); }

 private:
  OurBase base_;
  MemoryKey key_;
  Listener listener_;
  std::vector<Endpoint> endpoints_;
};

class OurSide : public Side {
 public:
  OurSide(Line& line, std::size_t connections) : meeting_(line.receive<Meeting>()) {
    endpoints_.reserve(connections);
    remotes_.reserve(connections);
    peer_ = "127.0.0.1:" + std::to_string(meeting_.port);
    key_.emplace(need(RemoteKey::unpack(std::span(meeting_.key).first(meeting_.key_size))));
  }

  void connect() override {
    endpoints_.push_back(need(Endpoint::connect(base_.worker, peer_, minute(), keyed_options())));
    remotes_.push_back(need(endpoints_.back().remote(*key_)));
  }

  void put(std::size_t connection) override {
    Transfer& place = window_[next_++ % kInFlight];
    while (place && !place.done()) base_.worker.progress();
    place = need(endpoints_[connection].put(base_.region.slice(0, sizeof(std::uint64_t)),
                                            remotes_[connection].slice(0, sizeof(std::uint64_t))));
  }

  void finish() override {
    for (Transfer& transfer : window_) {
      if (transfer) need(transfer.wait(std::chrono::seconds(20)));
      transfer.reset();
    }
  }

  void progress() override { base_.worker.progress(); }

  void close(std::size_t connection) override { need(endpoints_[connection].close(minute())); }

 private:
  OurBase base_;
  Meeting meeting_;
  std::string peer_;
  std::optional<RemoteKey> key_;
  std::vector<Endpoint> endpoints_;
  std::vector<RemoteRegion> remotes_;
  std::array<Transfer, kInFlight> window_;
  std::size_t next_ = 0;
};

}  // namespace

Library our_library() {
  return {.name = "hbmwire",
          .serve = [](Line& line) { return std::make_unique<OurServer>(line); },
          .begin =
              [](Line& line, std::size_t connections) {
                return std::make_unique<OurSide>(line, connections);
              }};
}

}  // namespace hbmwire::bench
