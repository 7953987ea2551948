// SPDX-License-Identifier: MIT
// In place of PMIx, if the build found no header of it.
#include "group/pmix_place.hpp"

namespace hbmwire::detail {

namespace {

tl::unexpected<Error> built_without_pmix() {
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe,
                                        "hbmwire was built without PMIx (libpmix-dev)", "PMIx",
                                        Hint::group_launcher));
}

}  // namespace

Result<PmixJob> pmix_job(const Wait& /*wait*/) { return built_without_pmix(); }

Result<std::unique_ptr<MeetingPlace>> PmixPlace::create(const Wait& /*wait*/) {
  return built_without_pmix();
}

}  // namespace hbmwire::detail
