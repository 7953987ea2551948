// SPDX-License-Identifier: MIT
#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

class RocmSignals : public RocmTest {
 protected:
  void SetUp() override {
    RocmTest::SetUp();
    for (hsa_signal_t& signal : signals_)
      // 12 is the first value. Any agent may use the signal, because none is named.
      ASSERT_EQ(hsa_signal_create(12, 0, nullptr, &signal), HSA_STATUS_SUCCESS);
  }

  void TearDown() override {
    for (const hsa_signal_t signal : signals_)
      EXPECT_EQ(hsa_signal_destroy(signal), HSA_STATUS_SUCCESS);
    RocmTest::TearDown();
  }

  [[nodiscard]] hsa_signal_value_t value() const { return hsa_signal_load_relaxed(signals_[0]); }

  std::array<hsa_signal_t, 2> signals_{};
};

TEST_F(RocmSignals, OperationsWorkInEveryMemoryOrder) {
  const hsa_signal_t signal = signals_[0];
  hsa_signal_add_relaxed(signal, 3);
  EXPECT_EQ(value(), 15);
  hsa_signal_subtract_acq_rel(signal, 1);
  EXPECT_EQ(value(), 14);
  hsa_signal_and_screlease(signal, 6);
  EXPECT_EQ(value(), 6);
  hsa_signal_or_scacquire(signal, 9);
  EXPECT_EQ(value(), 15);
  hsa_signal_xor_scacq_screl(signal, 5);
  EXPECT_EQ(value(), 10);
  EXPECT_EQ(hsa_signal_exchange_acquire(signal, 20), 10);
  EXPECT_EQ(hsa_signal_cas_release(signal, 19, 0), 20) << "the value is not 19, so it stays";
  EXPECT_EQ(hsa_signal_cas_scacq_screl(signal, 20, 21), 20);
  EXPECT_EQ(value(), 21);
  hsa_signal_silent_store_relaxed(signal, -1);
  EXPECT_EQ(hsa_signal_load_acquire(signal), -1);
}

TEST_F(RocmSignals, OneOrAllOfSeveralAreWaitedFor) {
  // Signal 0 must become 0, and signal 1 must fall below 5. Time-outs are in ns.
  std::array conditions{HSA_SIGNAL_CONDITION_EQ, HSA_SIGNAL_CONDITION_LT};
  std::array<hsa_signal_value_t, 2> values{0, 5};
  hsa_signal_value_t satisfying = 0;
  EXPECT_EQ(hsa_amd_signal_wait_any(2, signals_.data(), conditions.data(), values.data(), 1'000'000,
                                    HSA_WAIT_STATE_BLOCKED, &satisfying),
            UINT32_MAX)
      << "no condition held within the time";
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    hsa_signal_store_release(signals_[1], 4);
  });
  EXPECT_EQ(hsa_amd_signal_wait_any(2, signals_.data(), conditions.data(), values.data(),
                                    UINT64_MAX, HSA_WAIT_STATE_BLOCKED, &satisfying),
            1U);
  EXPECT_EQ(satisfying, 4);
  later.join();
  EXPECT_EQ(hsa_amd_signal_wait_all(2, signals_.data(), conditions.data(), values.data(), 1'000'000,
                                    HSA_WAIT_STATE_BLOCKED, nullptr),
            UINT32_MAX);
  hsa_signal_store_relaxed(signals_[0], 0);
  EXPECT_EQ(hsa_amd_signal_wait_all(2, signals_.data(), conditions.data(), values.data(),
                                    UINT64_MAX, HSA_WAIT_STATE_BLOCKED, nullptr),
            0U);
}

}  // namespace
}  // namespace hbmwire::test
