// SPDX-License-Identifier: MIT
//
// The order in which HIP's streams do their work.
#include <vector>

#include "hip_world.hpp"

namespace hbmwire::test {
namespace {

TEST_F(Hip, StreamsKeepTheirOrder) {
  const HipMemory memory(1 << 20);
  hipStream_t stream = nullptr;
  ASSERT_EQ(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
  std::vector<char> back(1 << 20);
  for (int value = 1; value < 20; ++value)
    EXPECT_EQ(hipMemsetAsync(memory.get(), value, 1 << 20, stream), hipSuccess);
  EXPECT_EQ(hipMemcpyAsync(back.data(), memory.get(), 1 << 20, hipMemcpyDeviceToHost, stream),
            hipSuccess);
  EXPECT_EQ(hipStreamSynchronize(stream), hipSuccess);
  EXPECT_EQ(hipStreamQuery(stream), hipSuccess);
  EXPECT_EQ(back, std::vector<char>(1 << 20, 19));
  EXPECT_EQ(hipStreamDestroy(stream), hipSuccess);
  EXPECT_EQ(hipStreamDestroy(stream), hipErrorInvalidHandle);
}

/// A stream, and memory that it fills for a while.
class BusyStream {
 public:
  explicit BusyStream(unsigned flags) {
    EXPECT_EQ(hipStreamCreateWithFlags(&stream_, flags), hipSuccess);
  }

  ~BusyStream() { EXPECT_EQ(hipStreamDestroy(stream_), hipSuccess); }

  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

  /// Fills the memory several times, last with `value`, by its own stream or another one.
  void fill_repeatedly(hipStream_t stream, int value) {
    for (int i = 8; i >= 0; --i) fill(stream, value + i);
  }

  void fill(hipStream_t stream, int value) {
    EXPECT_EQ(hipMemsetAsync(memory_.get(), value, kBytes, stream), hipSuccess);
  }

  /// The value in the memory; 0 if it differs between places.
  int content() {
    EXPECT_EQ(hipDeviceSynchronize(), hipSuccess);
    std::vector<char> all(kBytes);
    EXPECT_EQ(hipMemcpyDtoH(all.data(), memory_.get(), kBytes), hipSuccess);
    return all == std::vector<char>(kBytes, all[0]) ? all[0] : 0;
  }

  [[nodiscard]] hipStream_t stream() const { return stream_; }

  [[nodiscard]] char* memory() const { return memory_.get(); }

  static constexpr std::size_t kBytes = 2 << 20;

 private:
  HipMemory memory_{kBytes};
  hipStream_t stream_ = nullptr;
};

/// HIP's default: the null stream and the blocking streams take turns.
TEST_F(Hip, SynchronousCallsFollowTheWorkOfBlockingStreams) {
  BusyStream busy(hipStreamDefault);
  busy.fill_repeatedly(busy.stream(), 5);
  EXPECT_EQ(hipMemset(busy.memory(), 50, BusyStream::kBytes), hipSuccess);
  EXPECT_EQ(busy.content(), 50);
  const std::vector<char> heap(BusyStream::kBytes, 60);
  busy.fill_repeatedly(busy.stream(), 5);
  EXPECT_EQ(hipMemcpy(busy.memory(), heap.data(), heap.size(), hipMemcpyHostToDevice), hipSuccess);
  EXPECT_EQ(busy.content(), 60);
}

TEST_F(Hip, SynchronousCallsFollowTheWorkOfTheNullStream) {
  BusyStream busy(hipStreamNonBlocking);
  busy.fill_repeatedly(nullptr, 5);
  EXPECT_EQ(hipMemset(busy.memory(), 50, BusyStream::kBytes), hipSuccess);
  EXPECT_EQ(busy.content(), 50);
}

TEST_F(Hip, NullStreamAndBlockingStreamsTakeTurns) {
  BusyStream busy(hipStreamDefault);
  busy.fill_repeatedly(busy.stream(), 5);
  busy.fill(nullptr, 50);
  EXPECT_EQ(busy.content(), 50);
  busy.fill_repeatedly(nullptr, 5);
  busy.fill(busy.stream(), 60);
  EXPECT_EQ(busy.content(), 60);
}

/// Tries several times, because the null stream may be done before its state is queried.
TEST_F(Hip, ANonBlockingStreamWaitsForNoOtherStream) {
  BusyStream busy(hipStreamDefault);
  BusyStream other(hipStreamNonBlocking);
  hipError_t state = hipSuccess;
  for (int i = 0; i < 50 && state == hipSuccess; ++i) {
    busy.fill_repeatedly(nullptr, 5);
    other.fill(other.stream(), 6);
    EXPECT_EQ(hipStreamSynchronize(other.stream()), hipSuccess);
    state = hipStreamQuery(nullptr);
  }
  EXPECT_EQ(state, hipErrorNotReady);
}

}  // namespace
}  // namespace hbmwire::test
