// SPDX-License-Identifier: MIT
//
// Fail-the-n-th-call sweeps: no objects are left, whichever call fails. Each round of a sweep
// checks that, as GaudiTest::TearDown does.
#include <cerrno>
#include <vector>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/abi/synapse.h"
#include "emulation/gaudi/testing_hooks.hpp"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

class GaudiFaults : public GaudiTest {
 protected:
  void TearDown() override {
    hbmwire_gaudi_fail_nth_call(-1, 0);
    GaudiTest::TearDown();
  }

  // Runs the scene with the n-th call failing, for every n until no call fails.
  static void sweep(const std::function<bool()>& scene) {
    const int fds = open_descriptors();
    for (long n = 0; n < 200; ++n) {  // more rounds than a scene has calls
      hbmwire_gaudi_fail_nth_call(n, EIO);
      const bool succeeded = scene();
      const long calls = hbmwire_gaudi_fail_nth_call(-1, 0);
      EXPECT_TRUE(soon([&] { return open_descriptors() == fds; }))
          << "fds left when call " << n << " failed";
      for (const char* kind : {"allocation", "mapping", "export", "host_mapping"}) {
        EXPECT_EQ(hbmwire_gaudi_live_objects(0, kind), 0U)
            << kind << " left when call " << n << " failed";
      }
      if (calls <= n) {
        EXPECT_TRUE(succeeded) << "no call was made to fail";
        EXPECT_GT(n, 3) << "the scene has more calls";
        return;
      }
    }
    FAIL() << "a call still failed in the last round";
  }
};

/// Makes a call that undoes an earlier one, and makes it again if it was made to fail; a failed
/// call had no effect. Returns whether the first attempt succeeded.
template <class Call>
bool undo(Call call) {
  if (call() == 0) return true;
  EXPECT_EQ(call(), 0);
  return false;
}

/// Makes and maps memory, exports it, and undoes all in the order that the driver wants. Returns
/// whether every call succeeded.
bool hl_thunk_scene() {
  const int fd = open_first_card();
  if (fd < 0) return false;
  bool good = true;
  const std::uint64_t handle = hlthunk_device_memory_alloc(fd, 1, 0, true, false);
  const std::uint64_t address = handle != 0 ? hlthunk_device_memory_map(fd, handle, 0) : 0;
  int value = 0;
  const std::uint64_t host = hlthunk_host_memory_map(fd, &value, 0, sizeof(value));
  // The export is closed at once: a living one would keep the mapping.
  { good = Fd(address != 0 ? export_range(fd, address, 4096) : -1).get() >= 0; }
  if (address != 0) good = undo([&] { return hlthunk_memory_unmap(fd, address); }) && good;
  if (handle != 0) good = undo([&] { return hlthunk_device_memory_free(fd, handle); }) && good;
  // If this unmapping fails, closing the card removes the mapping. hlthunk_close() closes the card
  // even if it returns an error.
  if (host == 0 || hlthunk_memory_unmap(fd, host) != 0) good = false;
  return hlthunk_close(fd) == 0 && good;
}

/// Fills memory of the device and copies it to the host. Returns whether every call succeeded; the
/// objects are left.
bool synapse_work(synDeviceId id) {
  std::uint64_t buffer = 0;
  void* host = nullptr;
  synStreamHandle stream = nullptr;
  if (synDeviceMalloc(id, 4096, 0, 0, &buffer) != synSuccess) return false;
  if (synHostMalloc(id, 4096, 0, &host) != synSuccess) return false;
  if (synStreamCreateGeneric(&stream, id, 0) != synSuccess) return false;
  if (synMemsetD8Async(buffer, 1, 4096, stream) != synSuccess) return false;
  if (synMemCopyAsync(stream, buffer, 4096, reinterpret_cast<std::uint64_t>(host), DRAM_TO_HOST) !=
      synSuccess) {
    return false;
  }
  return synStreamSynchronize(stream) == synSuccess && *static_cast<char*>(host) == 1;
}

/// Acquires a card, uses it, and ends the library, which frees everything that was made on the
/// card. Returns whether every call succeeded.
bool synapse_scene() {
  if (synInitialize() != synSuccess) return false;
  synDeviceId id = 0;
  bool good = synDeviceAcquire(&id, nullptr) == synSuccess && synapse_work(id);
  if (synDestroy() != synSuccess) {
    good = false;
    EXPECT_EQ(synDestroy(), synSuccess);
  }
  return good;
}

TEST_F(GaudiFaults, NoFailingCallOfHlThunkLeavesAnything) { sweep(hl_thunk_scene); }

TEST_F(GaudiFaults, NoFailingCallOfSynapseLeavesAnything) { sweep(synapse_scene); }

TEST_F(GaudiFaults, EachFunctionFailsInItsOwnConvention) {
  const auto fail_next = [] { hbmwire_gaudi_fail_nth_call(0, ENOMEM); };
  fail_next();
  errno = 0;
  EXPECT_EQ(open_first_card(), -1);
  EXPECT_EQ(errno, ENOMEM);
  fail_next();
  EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:00:00.0"), -ENOMEM);
  const OpenCard card(open_first_card());
  fail_next();
  errno = 0;
  EXPECT_EQ(hlthunk_device_memory_alloc(card.fd(), 1, 0, false, false), 0U);
  EXPECT_EQ(errno, ENOMEM);
  fail_next();
  EXPECT_EQ(hlthunk_memory_unmap(card.fd(), 0), -ENOMEM);
  fail_next();
  EXPECT_EQ(export_range(card.fd(), 0, 0), -ENOMEM);
  // An injected failure comes before the library sees that no device is acquired.
  EXPECT_EQ(synInitialize(), synSuccess);
  fail_next();
  std::uint64_t buffer = 0;
  EXPECT_EQ(synDeviceMalloc(0, 1, 0, 0, &buffer), synOutOfDeviceMemory);
  hbmwire_gaudi_fail_nth_call(-1, 0);
  EXPECT_EQ(synDestroy(), synSuccess);
}

}  // namespace
}  // namespace hbmwire::test
