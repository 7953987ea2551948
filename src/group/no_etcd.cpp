// SPDX-License-Identifier: MIT
// In place of etcd, if the build found no header of libcurl.
#include "group/etcd_place.hpp"

namespace hbmwire::detail {

Result<std::unique_ptr<MeetingPlace>> EtcdPlace::create(MeetingName meeting) {
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::probe,
                 "hbmwire was built without etcd (libcurl4-openssl-dev, nlohmann-json3-dev)",
                 meeting.text, Hint::group_launcher));
}

}  // namespace hbmwire::detail
