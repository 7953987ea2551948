// SPDX-License-Identifier: MIT
#include "hbmwire/version.hpp"

#include "wire/attach_messages.hpp"
#include "wire/endpoint_offer.hpp"
#include "wire/memory_key.hpp"

namespace hbmwire {

Version version() noexcept { return kHeaderVersion; }

std::string to_string(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

ProtocolVersions protocol_versions() noexcept {
  return {.endpoint = wire::kEndpointVersion,
          .memory_key = wire::kMemoryKeyVersion,
          .attach = wire::kAttachVersion};
}

}  // namespace hbmwire
