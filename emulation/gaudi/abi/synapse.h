/* SPDX-License-Identifier: MIT
 *
 * The binary interface of libSynapse.so as far as the emulation offers it: names, signatures,
 * enumerator values and layouts are those of the vendor's library (1.18), the wording is ours.
 */
#ifndef HBMWIRE_EMULATION_GAUDI_ABI_SYNAPSE_H
#define HBMWIRE_EMULATION_GAUDI_ABI_SYNAPSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYN_INVALID_DEVICE_ID 0xFFFFFFFFU
#define INVALID_MODULE_ID 0xFFFFFFFFU

typedef enum synStatus {
  synSuccess = 0,
  synInvalidArgument = 1,
  synCbFull = 2,
  synOutOfHostMemory = 3,
  synOutOfDeviceMemory = 4,
  synObjectAlreadyInitialized = 5,
  synObjectNotInitialized = 6,
  synCommandSubmissionFailure = 7,
  synNoDeviceFound = 8,
  synDeviceTypeMismatch = 9,
  synDeviceReset = 17,
  synUnsupported = 18,
  synDeviceAlreadyAcquired = 20,
  synBusy = 22,
  synAllResourcesTaken = 23,
  synUnavailable = 24,
  synFail = 26,
  synOutOfResources = 27,
  synUninitialized = 28,
  synAlreadyInitialized = 29,
  synSynapseTerminated = 31,
  synInvalidEventHandle = 33,
  synTimeout = 42,
  synResourceBadUsage = 43
} synStatus;

typedef enum synDmaDir {
  HOST_TO_DRAM = 0,
  DRAM_TO_HOST = 1,
  DRAM_TO_DRAM = 2,
  DIRECTION_ENUM_MAX
} synDmaDir;

typedef enum synDeviceType {
  synDeviceGreco = 1,
  synDeviceGaudi = 2,
  synDeviceGaudi2 = 4,
  synDeviceGaudi3 = 5,
  synDeviceEmulator = 6,
  synDeviceTypeInvalid = 7,
  synDeviceTypeSize = 8
} synDeviceType;

typedef uint32_t synDeviceId;
typedef uint32_t synModuleId;
typedef struct InternalStreamHandle* synStreamHandle;
typedef struct EventInterfaceExternal* synEventHandle;

typedef struct synDeviceInfo {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  uint32_t fd;
  synDeviceType deviceType;
} synDeviceInfo;

typedef struct synDeviceInfoV2 {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  uint32_t fd;
  synDeviceType deviceType;
  uint8_t deviceIndex;
  uint64_t globalHbmBaseAddress; /* "reserved" in 1.18 */
} synDeviceInfoV2;

#pragma GCC visibility push(default)

synStatus synInitialize(void);
synStatus synDestroy(void);
synStatus synDriverGetVersion(char* pDriverVersion, const int len);
synStatus synStatusGetBriefDescription(synStatus status, char* statusDescription, size_t len);

synStatus synDeviceGetCount(uint32_t* pCount);
synStatus synDeviceGetCountByDeviceType(uint32_t* pCount, const synDeviceType deviceType);
synStatus synDeviceCount(uint32_t count[synDeviceTypeSize]);
synStatus synDeviceGetModuleIDs(uint32_t* pDeviceModuleIds, uint32_t* size);
synStatus synDeviceAcquire(synDeviceId* pDeviceId, const char* pciBus);
synStatus synDeviceAcquireByDeviceType(synDeviceId* pDeviceId, const synDeviceType deviceType);
synStatus synDeviceAcquireByModuleId(synDeviceId* pDeviceId, const synModuleId moduleId);
synStatus synDeviceRelease(const synDeviceId deviceId);
synStatus synDeviceSynchronize(const synDeviceId deviceId);
synStatus synDeviceGetInfo(const synDeviceId deviceId, synDeviceInfo* pDeviceInfo);
synStatus synDeviceGetInfoV2(const synDeviceId deviceId, synDeviceInfoV2* pDeviceInfo);
synStatus synDeviceGetMemoryInfo(const synDeviceId deviceId, uint64_t* free, uint64_t* total);
synStatus synDeviceGetName(char* pName, const int len, const synDeviceId deviceId);
synStatus synDeviceGetPCIBusId(char* pPciBusId, const int len, const synDeviceId deviceId);

synStatus synDeviceMalloc(const synDeviceId deviceId, const uint64_t size, uint64_t reqAddr,
                          const uint32_t flags, uint64_t* buffer);
synStatus synDeviceFree(const synDeviceId deviceId, const uint64_t buffer, const uint32_t flags);
synStatus synHostMalloc(const synDeviceId deviceId, const uint64_t size, const uint32_t flags,
                        void** buffer);
synStatus synHostFree(const synDeviceId deviceId, const void* buffer, const uint32_t flags);
synStatus synHostMap(const synDeviceId deviceId, const uint64_t size, const void* buffer);
synStatus synHostUnmap(const synDeviceId deviceId, const void* buffer);

synStatus synStreamCreateGeneric(synStreamHandle* pStreamHandle, const synDeviceId deviceId,
                                 const uint32_t flags);
synStatus synStreamDestroy(const synStreamHandle streamHandle);
synStatus synStreamWaitEvent(const synStreamHandle streamHandle, synEventHandle eventHandle,
                             const uint32_t flags);
synStatus synStreamSynchronize(const synStreamHandle streamHandle);
synStatus synStreamQuery(const synStreamHandle streamHandle);
synStatus synEventCreate(synEventHandle* pEventHandler, const synDeviceId deviceId,
                         const uint32_t flags);
synStatus synEventDestroy(synEventHandle eventHandle);
synStatus synEventRecord(synEventHandle eventHandle, const synStreamHandle streamHandle);
synStatus synEventQuery(const synEventHandle eventHandle);
synStatus synEventSynchronize(const synEventHandle eventHandle);

synStatus synMemCopyAsync(const synStreamHandle streamHandle, const uint64_t src,
                          const uint64_t size, const uint64_t dst, const synDmaDir direction);
synStatus synMemCopyAsyncMultiple(const synStreamHandle streamHandle, const uint64_t* src,
                                  const uint64_t* size, const uint64_t* dst,
                                  const synDmaDir direction, const uint64_t numCopies);
synStatus synMemsetD8Async(uint64_t pDeviceMem, const unsigned char value,
                           const size_t numOfElements, const synStreamHandle streamHandle);
synStatus synMemsetD16Async(uint64_t pDeviceMem, const uint16_t value, const size_t numOfElements,
                            const synStreamHandle streamHandle);
synStatus synMemsetD32Async(uint64_t pDeviceMem, const uint32_t value, const size_t numOfElements,
                            const synStreamHandle streamHandle);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
