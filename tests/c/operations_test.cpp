// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "ends.hpp"

// Each operation between two workers of one process, with host memory and with a Gaudi's.
namespace hbmwire::c_test {
namespace {

class COperations : public ::testing::TestWithParam<hbmwire_memory_type> {
 protected:
  template <class Call>
  [[nodiscard]] Transfer start(const Call& call) const {
    return make<Transfer>(call);
  }

  [[nodiscard]] hbmwire_remote_slice target(std::uint64_t offset = 0,
                                            std::uint64_t length = kBytes) const {
    return {remote_.get(), offset, length};
  }

  [[nodiscard]] Transfer put(const hbmwire_put_options* options = nullptr) const {
    const hbmwire_slice from = ends_.here();
    const hbmwire_remote_slice to = target();
    return start([&](auto** made, auto* error) {
      return hbmwire_endpoint_put(ends_.a.get(), &from, &to, options, made, error);
    });
  }

  Ends ends_{GetParam()};
  Remote remote_ = ends_.target();
};

TEST_P(COperations, APutArrives) {
  set(ends_.a_region, 7);
  set(ends_.b_region, 0);
  auto options = HBMWIRE_MADE(hbmwire_put_options);
  options.level = HBMWIRE_LEVEL_VISIBLE;
  const Transfer put = this->put(&options);
  ends_.finish(put);
  EXPECT_TRUE(has(ends_.b_region, 7));
  EXPECT_EQ(hbmwire_transfer_bytes(put.get()), kBytes);
  EXPECT_TRUE(hbmwire_transfer_settled(put.get()));
  EXPECT_GE(hbmwire_transfer_path(put.get()), 0);
}

TEST_P(COperations, AGetBringsThePeersBytes) {
  set(ends_.a_region, 0);
  set(ends_.b_region, 9);
  const hbmwire_slice into = ends_.here();
  const hbmwire_remote_slice from = target();
  ends_.finish(start([&](auto** made, auto* error) {
    return hbmwire_endpoint_get(ends_.a.get(), &into, &from, made, error);
  }));
  EXPECT_TRUE(has(ends_.a_region, 9));
}

TEST_P(COperations, AnImmediateComesBehindItsBytes) {
  set(ends_.a_region, 5);
  const hbmwire_slice written = ends_.there();
  const Transfer immediate = start([&](auto** made, auto* error) {
    return hbmwire_endpoint_receive_immediate(ends_.b.get(), &written, made, error);
  });
  auto options = HBMWIRE_MADE(hbmwire_put_options);
  options.has_immediate = 1;
  options.immediate = 4711;
  ends_.finish(put(&options));
  ends_.finish(immediate);
  EXPECT_EQ(hbmwire_transfer_value(immediate.get()), 4711U);
  EXPECT_TRUE(has(ends_.b_region, 5));
}

TEST_P(COperations, AMessageGoesToItsReceive) {
  set(ends_.a_region, 3);
  set(ends_.b_region, 0);
  const hbmwire_slice from = ends_.here();
  const hbmwire_slice into = ends_.there();
  const Transfer received = start([&](auto** made, auto* error) {
    return hbmwire_endpoint_receive(ends_.b.get(), &into, made, error);
  });
  const Transfer sent = start([&](auto** made, auto* error) {
    return hbmwire_endpoint_send(ends_.a.get(), &from, HBMWIRE_LEVEL_ARRIVED, made, error);
  });
  ends_.finish(received);
  ends_.finish(sent);
  EXPECT_TRUE(has(ends_.b_region, 3));
}

TEST_P(COperations, ATaggedMessageGoesToTheReceiveWhoseTagFits) {
  set(ends_.a_region, 4);
  const hbmwire_slice from = ends_.here(0, 64);
  const hbmwire_slice into = ends_.there(0, 64);
  const auto receive = [&](std::uint64_t tag, std::uint64_t mask) {
    return start([&](auto** made, auto* error) {
      return hbmwire_endpoint_receive_tagged(ends_.b.get(), &into, tag, mask, made, error);
    });
  };
  const Transfer other = receive(0x200, 0xF00);
  const Transfer fits = receive(0x100, 0xF00);
  ends_.finish(start([&](auto** made, auto* error) {
    return hbmwire_endpoint_send_tagged(ends_.a.get(), &from, 0x123, HBMWIRE_LEVEL_SENT, made,
                                        error);
  }));
  ends_.finish(fits);
  EXPECT_EQ(hbmwire_transfer_value(fits.get()), 0x123U);
  EXPECT_EQ(hbmwire_transfer_bytes(fits.get()), 64U);
  EXPECT_FALSE(hbmwire_transfer_done(other.get()));
  good([&](auto* error) { return hbmwire_transfer_cancel(other.get(), error); });
  EXPECT_EQ(hbmwire_endpoint_phase(ends_.a.get()), HBMWIRE_PHASE_READY);
}

TEST_P(COperations, APreparedListRunsManyTimes) {
  const hbmwire_part parts[] = {{ends_.here(0, 64), target(1024, 64)},
                                {ends_.here(64, 128), target(0, 128)}};
  using Prepared = std::unique_ptr<hbmwire_prepared, Freed<hbmwire_prepared_free>>;
  const auto put = make<Prepared>([&](auto** made, auto* error) {
    return hbmwire_endpoint_prepare_put(ends_.a.get(), parts, 2, nullptr, made, error);
  });
  const auto get = make<Prepared>([&](auto** made, auto* error) {
    return hbmwire_endpoint_prepare_get(ends_.a.get(), parts, 2, made, error);
  });
  for (unsigned char round = 1; round < 4; ++round) {
    set(ends_.a_region, round);
    for (const Prepared* one : {&put, &get}) {
      ends_.finish(start([&](auto** made, auto* error) {
        return hbmwire_prepared_post(one->get(), made, error);
      }));
    }
    EXPECT_TRUE(has(ends_.b_region, round, 128));
  }
}

TEST_P(COperations, BlocksGoToTheirNumbers) {
  set(ends_.a_region, 6);
  set(ends_.b_region, 0);
  const hbmwire_slice all = ends_.here();
  const hbmwire_remote_slice all_there = target();
  using Table = std::unique_ptr<hbmwire_block_table, Freed<hbmwire_block_table_free>>;
  using RemoteTable =
      std::unique_ptr<hbmwire_remote_block_table, Freed<hbmwire_remote_block_table_free>>;
  // Tables of one area with blocks of 64 bytes.
  const auto here = make<Table>([&](auto** made, auto* error) {
    return hbmwire_block_table_create(&all, 1, 64, made, error);
  });
  const auto there = make<RemoteTable>([&](auto** made, auto* error) {
    return hbmwire_remote_block_table_create(&all_there, 1, 64, made, error);
  });
  EXPECT_EQ(hbmwire_block_table_size(here.get()), kBytes / 64);
  EXPECT_EQ(hbmwire_block_table_block_bytes(here.get()), 64U);
  EXPECT_EQ(hbmwire_remote_block_table_size(there.get()), kBytes / 64);
  EXPECT_EQ(hbmwire_remote_block_table_block_bytes(there.get()), 64U);
  const std::array<std::uint32_t, 2> from{5, 8};
  const std::array<std::uint64_t, 2> to{0, 1};
  // The third member is the width of a number in bits.
  const hbmwire_block_numbers from_blocks{from.data(), from.size(), 32, 0};
  const hbmwire_block_numbers to_blocks{to.data(), to.size(), 64, 0};
  ends_.finish(start([&](auto** made, auto* error) {
    return hbmwire_endpoint_put_blocks(ends_.a.get(), here.get(), &from_blocks, there.get(),
                                       &to_blocks, nullptr, made, error);
  }));
  EXPECT_TRUE(has(ends_.b_region, 6, 128));
  ends_.finish(start([&](auto** made, auto* error) {
    return hbmwire_endpoint_get_blocks(ends_.a.get(), here.get(), &from_blocks, there.get(),
                                       &to_blocks, made, error);
  }));
  const hbmwire_block_numbers odd{from.data(), from.size(), 16, 0};  // numbers may not have 16 bits
  hbmwire_transfer* none = nullptr;
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_endpoint_put_blocks(ends_.a.get(), here.get(), &odd, there.get(), &to_blocks,
                                       nullptr, &none, error);
  });
}

TEST_P(COperations, AtomicsGiveTheValueBefore) {
  set(ends_.b_region, 0);
  const hbmwire_remote_slice at = target(64, 8);
  const Transfer added = start([&](auto** made, auto* error) {
    return hbmwire_endpoint_fetch_add(ends_.a.get(), &at, 42, made, error);
  });
  ends_.finish(added);
  EXPECT_EQ(hbmwire_transfer_value(added.get()), 0U);
  const Transfer swapped = start([&](auto** made, auto* error) {
    return hbmwire_endpoint_compare_swap(ends_.a.get(), &at, 42, 7, made, error);
  });
  ends_.finish(swapped);
  EXPECT_EQ(hbmwire_transfer_value(swapped.get()), 42U);
}

TEST_P(COperations, FlushAndFenceEndBehindPuts) {
  const Transfer put = this->put();
  good([&](auto* error) { return hbmwire_endpoint_fence(ends_.a.get(), error); });
  ends_.finish(start([&](auto** made, auto* error) {
    return hbmwire_endpoint_flush(ends_.a.get(), made, error);
  }));
  EXPECT_TRUE(hbmwire_transfer_done(put.get()));
  const hbmwire_slice memory = ends_.there();
  ends_.finish(start([&](auto** made, auto* error) {
    return hbmwire_worker_flush(ends_.b_worker.get(), &memory, made, error);
  }));
}

TEST_P(COperations, AReportTellsHowItWent) {
  const Transfer put = this->put();
  ends_.finish(put);
  const auto report = make<Report>(
      [&](auto** made, auto* error) { return hbmwire_transfer_explain(put.get(), made, error); });
  auto info = HBMWIRE_MADE(hbmwire_report_info);
  good([&](auto* error) { return hbmwire_report_get_info(report.get(), &info, error); });
  EXPECT_EQ(info.local_type, GetParam());
  EXPECT_EQ(info.asked_ns, HBMWIRE_UNSET);
  EXPECT_STREQ(info.peer, ends_.address().c_str());
  char sentence[512];
  const std::size_t length = hbmwire_report_describe(report.get(), sentence, sizeof sentence);
  EXPECT_EQ(length, std::strlen(sentence));
  EXPECT_NE(std::string(sentence).find(ends_.address()), std::string::npos);
  auto tried = HBMWIRE_MADE(hbmwire_path_tried);
  for (std::size_t i = 0; i < info.local_count; ++i) {
    good(
        [&](auto* error) { return hbmwire_report_local(report.get(), i, &tried, nullptr, error); });
  }
  Failure refusal;
  good([&](auto* error) {
    return hbmwire_report_copy(report.get(), &tried, &refusal.error, error);
  });
  good(
      [&](auto* error) { return hbmwire_report_ipc(report.get(), &tried, &refusal.error, error); });
  const char* nic = nullptr;
  std::uint64_t bytes = 0;
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_report_rail(report.get(), info.rail_count, &nic, &bytes, error);
  });
}

INSTANTIATE_TEST_SUITE_P(Memory, COperations,
                         ::testing::Values(HBMWIRE_MEMORY_HOST, HBMWIRE_MEMORY_GAUDI),
                         [](const auto& info) {
                           return std::string(hbmwire_memory_type_name(info.param));
                         });

}  // namespace
}  // namespace hbmwire::c_test
