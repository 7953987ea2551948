// SPDX-License-Identifier: MIT
#include "group/pmix_place.hpp"

#include "group/left_addresses.hpp"

namespace hbmwire::detail {

Result<PmixJob> pmix_job(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const PmixClient* const client, PmixClient::get(wait));
  return client->job();
}

Result<std::unique_ptr<MeetingPlace>> PmixPlace::create(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(PmixClient* const client, PmixClient::get(wait));
  return std::make_unique<PmixPlace>(*client);
}

Result<bool> PmixPlace::claim(const Wait& /*wait*/) {
  // PMIx numbers the processes, so none has to ask.
  return client_->job().rank == 0;
}

Result<void> PmixPlace::leave(const std::vector<std::string>& addresses, const Wait& wait) {
  return client_->leave(left_text(addresses), wait);
}

Result<std::vector<std::string>> PmixPlace::look(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const std::string text, client_->look(wait));
  return addresses_in(text);
}

}  // namespace hbmwire::detail
