// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/pending.hpp"

#include "transfer.hpp"
#include "worker.hpp"

namespace hbmwire::python {

/// hbmwire.Endpoint. It holds an endpoint, or stands for one that a group holds; the group ends
/// this object before that endpoint.
class EndpointObject : public Part {
 public:
  EndpointObject(SharedWorker worker, Endpoint endpoint)
      : Part(std::move(worker)), own_(std::move(endpoint)), endpoint_(&*own_) {}

  EndpointObject(SharedWorker worker, Endpoint* of_group)
      : Part(std::move(worker)), endpoint_(of_group) {}

  void end() noexcept override {
    endpoint_ = nullptr;
    own_.reset();
  }

  /// Raises InvalidArgument if its worker was closed.
  [[nodiscard]] Endpoint& open();

  [[nodiscard]] bool is_open() const noexcept { return endpoint_ != nullptr; }

  [[nodiscard]] bool is_own() const noexcept { return own_.has_value(); }

  /// Whether it stands for this endpoint.
  [[nodiscard]] bool is(const Endpoint* other) const noexcept { return endpoint_ == other; }

  /// open(), before an operation. First it releases the memory of transfers that are over.
  [[nodiscard]] Endpoint& start();

  void replace(Endpoint endpoint) { endpoint_ = &own_.emplace(std::move(endpoint)); }

  /// Closes it with a goodbye, and waits for that. Raises as Endpoint::close().
  void close(const Deadline& deadline);

 private:
  std::optional<Endpoint> own_;
  Endpoint* endpoint_;  // null: it has ended
};

using NewEndpoint = std::unique_ptr<EndpointObject>;

/// A connection under way: hbmwire._core._Connecting.
class ConnectingObject : public Waitable, public Part {
 public:
  ConnectingObject(SharedWorker worker, PendingEndpoint pending)
      : Waitable(worker),
        Part(std::move(worker)),
        pending_(std::make_shared<PendingEndpoint>(std::move(pending))) {}

  [[nodiscard]] Transfer& transfer() override;

  [[nodiscard]] Keep keep() override { return pending_; }

  void end() noexcept override { pending_.reset(); }

  /// The endpoint, once the connection is over.
  [[nodiscard]] Endpoint take();

  using Waitable::worker;

 private:
  std::shared_ptr<PendingEndpoint> pending_;
};

/// A question to the peer about its memory: hbmwire._core._Asking.
class AskingObject : public Waitable, public Part {
 public:
  AskingObject(SharedWorker worker, PendingRegion pending)
      : Waitable(worker),
        Part(std::move(worker)),
        pending_(std::make_shared<PendingRegion>(std::move(pending))) {}

  [[nodiscard]] Transfer& transfer() override;

  [[nodiscard]] Keep keep() override { return pending_; }

  void end() noexcept override { pending_.reset(); }

  [[nodiscard]] RemoteObject take();

  using Waitable::worker;

 private:
  std::shared_ptr<PendingRegion> pending_;
};

}  // namespace hbmwire::python
