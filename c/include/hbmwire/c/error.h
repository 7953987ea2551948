// SPDX-License-Identifier: MIT
// The kinds of failures, and why a call failed.
#ifndef HBMWIRE_C_ERROR_H
#define HBMWIRE_C_ERROR_H

#include "hbmwire/c/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The kind of a failure, on which a program can decide; HBMWIRE_OK: none.
typedef int32_t hbmwire_status;

enum {
  HBMWIRE_OK = 0,                 ///< no failure
  HBMWIRE_INVALID_ARGUMENT = 1,   ///< the caller asked for something impossible
  HBMWIRE_NOT_FOUND = 2,          ///< no such device, library, host or name
  HBMWIRE_NOT_SUPPORTED = 3,      ///< this device, driver or kernel can't do it
  HBMWIRE_PERMISSION_DENIED = 4,  ///< the operating system or the peer refused
  HBMWIRE_BUSY = 5,               ///< another owner has it
  HBMWIRE_EXHAUSTED = 6,          ///< no more memory, handles or room
  HBMWIRE_TIMED_OUT = 7,          ///< the deadline passed
  HBMWIRE_PEER_FAILED = 8,        ///< the peer went away, or broke the protocol
  HBMWIRE_PROTOCOL = 9,           ///< the peer speaks another protocol or version
  HBMWIRE_DATA_MISMATCH = 10,     ///< bytes are not what they should be
  HBMWIRE_CANCELLED = 11,         ///< the caller asked to stop
  HBMWIRE_SYSTEM = 12,            ///< any other failure of a call
};

/// Where something failed.
typedef int32_t hbmwire_stage;

enum {
  HBMWIRE_STAGE_CONFIGURE = 0,        ///< reading options and environment
  HBMWIRE_STAGE_PROBE = 1,            ///< looking for devices, drivers, libraries
  HBMWIRE_STAGE_OPEN = 2,             ///< opening a device
  HBMWIRE_STAGE_ALLOCATE = 3,         ///< allocating or mapping memory
  HBMWIRE_STAGE_EXPORT_DMABUF = 4,    ///< asking an accelerator's driver for a dma-buf
  HBMWIRE_STAGE_REGISTER_MEMORY = 5,  ///< telling a NIC about memory
  HBMWIRE_STAGE_CONNECT = 6,          ///< reaching, greeting and wiring up a peer
  HBMWIRE_STAGE_POST = 7,             ///< handing work to a queue
  HBMWIRE_STAGE_COMPLETE = 8,         ///< waiting for work, or learning how it ended
  HBMWIRE_STAGE_COPY = 9,             ///< moving bytes by a device's own engine
  HBMWIRE_STAGE_VERIFY = 10,          ///< comparing contents
  HBMWIRE_STAGE_FILE = 11,            ///< reading or writing a file
};

/// How to read hbmwire_error::number.
typedef int32_t hbmwire_number_kind;

enum {
  HBMWIRE_NUMBER_NONE = 0,               ///< there is no number
  HBMWIRE_NUMBER_ERRNO = 1,              ///< errno(3)
  HBMWIRE_NUMBER_WC_STATUS = 2,          ///< enum ibv_wc_status, ibv_poll_cq(3)
  HBMWIRE_NUMBER_SYN_STATUS = 3,         ///< synStatus of SynapseAI
  HBMWIRE_NUMBER_CUDA_RESULT = 4,        ///< CUresult of the CUDA driver API
  HBMWIRE_NUMBER_HSA_STATUS = 5,         ///< hsa_status_t of ROCr
  HBMWIRE_NUMBER_HIP_ERROR = 6,          ///< hipError_t of HIP
  HBMWIRE_NUMBER_GAI_ERROR = 7,          ///< EAI_*, getaddrinfo(3)
  HBMWIRE_NUMBER_PROTOCOL_VERSIONS = 8,  ///< 65536 times the peer's version, plus this end's
};

/// The remedy of a failure: HBMWIRE_HINT_NONE and so on, in "hbmwire/c/hint.h". hbmwire_hint_name()
/// and hbmwire_hint_text() explain it. Numbers keep their meaning; later versions may add hints.
typedef int32_t hbmwire_hint;

/// Why a call failed. The program owns it. The library fills it in at the end of each call that has
/// it as an argument; after a success `code` is HBMWIRE_OK.
typedef struct hbmwire_error {
  size_t struct_size;               ///< set by hbmwire_error_init()
  hbmwire_status code;              ///< the kind of failure
  hbmwire_stage stage;              ///< where it happened
  hbmwire_hint hint;                ///< the remedy
  hbmwire_number_kind number_kind;  ///< how to read `number`
  int32_t number;                   ///< errno or status of the call
  int32_t reserved;                 ///< 0
  const char* call;  ///< the call or the check that failed; valid as long as the library is loaded
  char subject[48];  ///< device, host or name that it concerns; may be empty
} hbmwire_error;

/// Makes it empty: HBMWIRE_OK. A call with an error that was not initialised fails with
/// HBMWIRE_INVALID_ARGUMENT.
HBMWIRE_C_API void hbmwire_error_init(hbmwire_error* error, size_t struct_size);

/// One sentence: stage, subject, cause and remedy. Writes as much of it into `text` as `capacity`
/// has room for, and returns its length without the NUL. `text` may be NULL if `capacity` is 0.
HBMWIRE_C_API size_t hbmwire_error_describe(const hbmwire_error* error, char* text,
                                            size_t capacity);

/// The same with the program's own remedy; without any if `remedy` is empty or NULL.
HBMWIRE_C_API size_t hbmwire_error_describe_with(const hbmwire_error* error, const char* remedy,
                                                 char* text, size_t capacity);

/// The decoded number, as "ENOTSUPP (524)"; empty without a number. As hbmwire_error_describe().
HBMWIRE_C_API size_t hbmwire_error_number_text(const hbmwire_error* error, char* text,
                                               size_t capacity);

/// Whether it is a shortage that may pass: descriptors, memory, processes or room.
HBMWIRE_C_API bool hbmwire_error_is_shortage(const hbmwire_error* error);

/// The words that users see: "not found", "connect"; empty for a number that has none ("success"
/// for HBMWIRE_OK). Valid as long as the library is loaded.
HBMWIRE_C_API const char* hbmwire_status_name(hbmwire_status status);
HBMWIRE_C_API const char* hbmwire_stage_name(hbmwire_stage stage);

/// The name of a hint, as `hbmwire doctor explain` takes it ("no_rdma_device"), and its remedy as a
/// sentence without its full stop. Empty for a number that is no hint, so that a loop from 0 up to
/// the first empty name gives all hints. Valid as long as the library is loaded.
HBMWIRE_C_API const char* hbmwire_hint_name(hbmwire_hint hint);
HBMWIRE_C_API const char* hbmwire_hint_text(hbmwire_hint hint);

/// The hint of a name; -1 if there is none.
HBMWIRE_C_API hbmwire_hint hbmwire_hint_from_name(const char* name);

#ifdef __cplusplus
}
#endif

#endif
