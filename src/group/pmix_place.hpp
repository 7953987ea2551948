// SPDX-License-Identifier: MIT
#pragma once

#include "group/launch_environment.hpp"
#include "group/meeting_place.hpp"
#include "group/pmix_client.hpp"

namespace hbmwire::detail {

/// This process' place in its job. Errors: as PmixClient::get().
Result<PmixJob> pmix_job(const Wait& wait);

/// PMIx' store of keys: rank 0 puts its addresses there, and each other process gets them from the
/// server of its machine. All ranks need not come together for that (no PMIx_Fence()).
class PmixPlace final : public MeetingPlace {
 public:
  /// Errors: as PmixClient::get().
  static Result<std::unique_ptr<MeetingPlace>> create(const Wait& wait);

  explicit PmixPlace(PmixClient& client) noexcept : client_(&client) {}

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

  Result<bool> claim(const Wait& wait) override;
  Result<void> leave(const std::vector<std::string>& addresses, const Wait& wait) override;
  Result<std::vector<std::string>> look(const Wait& wait) override;

 private:
  PmixClient* client_;
  std::string name_ = "PMIx";
};

}  // namespace hbmwire::detail
