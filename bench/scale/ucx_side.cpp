// SPDX-License-Identifier: MIT
#include <ucp/api/ucp.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "bench/scale/side.hpp"

namespace hbmwire::bench {
namespace {

void check_status(ucs_status_t status, const char* call) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string(call) + ": " + ucs_status_string(status));
}

struct UcxPlace {
  std::uint64_t memory = 0;
  std::uint32_t address_size = 0;
  std::uint32_t key_size = 0;
  std::array<std::byte, 2048> address{};
  std::array<std::byte, 1024> key{};
};

/// A UCP worker that uses only the NIC, and a page.
class UcxBase {
 public:
  UcxBase() {
    ::setenv("UCX_TLS", "rc_verbs,ud_verbs", 0);  // 0: the caller's environment has precedence
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_RMA;
    ucp_config_t* config = nullptr;
    check_status(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    const ucs_status_t made = ucp_init(&parameters, config, &context_);
    ucp_config_release(config);
    check_status(made, "ucp_init");
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check_status(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
    ucp_mem_map_params_t memory{};
    memory.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    memory.address = page_.data();
    memory.length = page_.size();
    check_status(ucp_mem_map(context_, &memory, &memory_), "ucp_mem_map");
  }

  UcxBase(const UcxBase&) = delete;
  UcxBase& operator=(const UcxBase&) = delete;
  UcxBase(UcxBase&&) = delete;
  UcxBase& operator=(UcxBase&&) = delete;

  ~UcxBase() {
    ucp_mem_unmap(context_, memory_);
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  [[nodiscard]] ucp_worker_h worker() const { return worker_; }

  [[nodiscard]] const std::byte* page() const { return page_.data(); }

  [[nodiscard]] UcxPlace place() const {
    UcxPlace place;
    place.memory = reinterpret_cast<std::uint64_t>(page_.data());
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    check_status(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
    place.address_size = copy(address, size, place.address);
    ucp_worker_release_address(worker_, address);
    void* key = nullptr;
    check_status(ucp_rkey_pack(context_, memory_, &key, &size), "ucp_rkey_pack");
    place.key_size = copy(key, size, place.key);
    ucp_rkey_buffer_release(key);
    return place;
  }

 private:
  template <class Room>
  static std::uint32_t copy(const void* from, std::size_t size, Room& into) {
    if (size > into.size()) throw std::runtime_error("a UCX address or key is too long");
    std::memcpy(into.data(), from, size);
    return static_cast<std::uint32_t>(size);
  }

  alignas(4096) std::array<std::byte, 4096> page_{};
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h memory_ = nullptr;
};

/// Makes no connections: with UCX only the writing end needs an endpoint.
class UcxServer : public Server {
 public:
  explicit UcxServer(Line& line) { line.send(base_.place()); }

  void progress() override { ucp_worker_progress(base_.worker()); }

  [[nodiscard]] std::size_t connections() const override { return kEach; }

 private:
  UcxBase base_;
};

class UcxSide : public Side {
 public:
  UcxSide(Line& line, std::size_t connections) : there_(line.receive<UcxPlace>()) {
    connections_.reserve(connections);
  }

  UcxSide(const UcxSide&) = delete;
  UcxSide& operator=(const UcxSide&) = delete;
  UcxSide(UcxSide&&) = delete;
  UcxSide& operator=(UcxSide&&) = delete;

  ~UcxSide() override {
    for (std::size_t i = 0; i < connections_.size(); ++i) UcxSide::close(i);
  }

  /// UCX connects with the first operation.
  void connect() override {
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(there_.address.data());
    Connection& made = connections_.emplace_back();
    check_status(ucp_ep_create(base_.worker(), &parameters, &made.endpoint), "ucp_ep_create");
    check_status(ucp_ep_rkey_unpack(made.endpoint, there_.key.data(), &made.key),
                 "ucp_ep_rkey_unpack");
    put(connections_.size() - 1);
    finish();
    ucp_request_param_t nothing{};
    wait(ucp_ep_flush_nbx(made.endpoint, &nothing));
  }

  void put(std::size_t connection) override {
    void*& place = window_[next_++ % kInFlight];
    wait(std::exchange(place, nullptr));
    ucp_request_param_t nothing{};
    place = ucp_put_nbx(connections_[connection].endpoint, base_.page(), sizeof(std::uint64_t),
                        there_.memory, connections_[connection].key, &nothing);
    // Short puts are over at once. They leave the NIC's queue only with progress.
    if (next_ % kInFlight == 0) ucp_worker_progress(base_.worker());
  }

  void finish() override {
    for (void*& place : window_) wait(std::exchange(place, nullptr));
    ucp_request_param_t nothing{};
    wait(ucp_worker_flush_nbx(base_.worker(), &nothing));
  }

  void progress() override { ucp_worker_progress(base_.worker()); }

  void close(std::size_t connection) override {
    Connection& goes = connections_[connection];
    if (goes.endpoint == nullptr) return;
    ucp_rkey_destroy(goes.key);
    ucp_request_param_t nothing{};
    wait(ucp_ep_close_nbx(std::exchange(goes.endpoint, nullptr), &nothing));
  }

 private:
  struct Connection {
    ucp_ep_h endpoint = nullptr;
    ucp_rkey_h key = nullptr;
  };

  void wait(void* request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check_status(UCS_PTR_STATUS(request), "a UCX request");
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
      ucp_worker_progress(base_.worker());
    ucp_request_free(request);
    check_status(status, "a UCX request");
  }

  UcxBase base_;
  UcxPlace there_;
  std::vector<Connection> connections_;
  std::array<void*, kInFlight> window_{};
  std::size_t next_ = 0;
};

}  // namespace

Library ucx_library() {
  return {.name = "UCX",
          .serve = [](Line& line) { return std::make_unique<UcxServer>(line); },
          .begin =
              [](Line& line, std::size_t connections) {
                return std::make_unique<UcxSide>(line, connections);
              }};
}

}  // namespace hbmwire::bench
