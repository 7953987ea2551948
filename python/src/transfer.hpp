// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "worker.hpp"

namespace hbmwire::python {

/// hbmwire.Transfer. It keeps everything that the operation uses. If it is dropped too early, the
/// worker keeps that until the operation is over.
class TransferObject : public Waitable {
 public:
  template <class... Kept>
  TransferObject(SharedWorker worker, Transfer transfer, Kept... keeps)
      : Waitable(std::move(worker)), transfer_(std::move(transfer)), keeps_{std::move(keeps)...} {}

  TransferObject(const TransferObject&) = delete;
  TransferObject& operator=(const TransferObject&) = delete;

  ~TransferObject() override { let_go(); }

  [[nodiscard]] Transfer& transfer() override { return transfer_; }

  std::array<Keep, kKeeps> give_keeps() override { return std::move(keeps_); }

 private:
  Transfer transfer_;
  std::array<Keep, kKeeps> keeps_;
};

/// The form in which Python gets a transfer.
using NewTransfer = std::unique_ptr<TransferObject>;

}  // namespace hbmwire::python
