// SPDX-License-Identifier: MIT
// The versions of the library and of its protocols.
#ifndef HBMWIRE_C_VERSION_H
#define HBMWIRE_C_VERSION_H

#include "hbmwire/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The version of the library, and those of the protocols that it speaks (docs/versions.md).
typedef struct hbmwire_versions {
  size_t struct_size;            ///< set by hbmwire_versions_init()
  int32_t major;                 ///< of the library
  int32_t minor;                 ///< of the library
  int32_t patch;                 ///< of the library
  uint32_t endpoint_protocol;    ///< endpoints and invitations
  uint32_t memory_key_protocol;  ///< memory keys
  uint32_t attach_protocol;      ///< attaching another process's memory
} hbmwire_versions;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_versions_init(hbmwire_versions* versions, size_t struct_size);

/// Gives the versions of the running library.
HBMWIRE_C_API hbmwire_status hbmwire_get_versions(hbmwire_versions* versions, hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
