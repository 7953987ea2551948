// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "fake_habanalabs.hpp"
#include "memory/gaudi/domains.hpp"
#include "memory/gaudi/kernel_driver.hpp"
#include "tests/support/open_descriptors.hpp"

namespace hbmwire::memory::gaudi {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kOne = "0000:4d:00.0";
constexpr const char* kOther = "0000:4e:00.0";

/// Two cards in a separate sysfs, both with nodes of the fake driver.
class GaudiKernelDriver : public testing::Test {
 protected:
  GaudiKernelDriver() {
    if (const char* path = std::getenv("SYSFS_PATH")) before_ = path;
    ::setenv("SYSFS_PATH", root_.c_str(), 1);
    add_card(0, kOne);
    add_card(1, kOther);

    // Every node of the fake driver is /dev/null, so the card is found by that device's number.
    struct stat node {};

    ::stat("/dev/null", &node);
    write(fs::path("dev/char") /
              (std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev))) /
              "device/pci_addr",
          kOne);
    set_log_sink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }

  ~GaudiKernelDriver() override {
    set_log_sink({});
    if (before_.empty()) {
      ::unsetenv("SYSFS_PATH");
    } else {
      ::setenv("SYSFS_PATH", before_.c_str(), 1);
    }
    fs::remove_all(root_);
  }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }

  void add_card(int index, const std::string& address) {
    const std::string number = std::to_string(index);
    write(fs::path("bus/pci/devices") / address / "vendor", "0x1da3");
    write(fs::path("bus/pci/devices") / address / "device", "0x1020");
    write("class/accel/accel" + number + "/device/pci_addr", address);
    fake_->nodes["/dev/accel/accel" + number] = 0;
    fake_->nodes["/dev/accel/accel_controlD" + number] = 0;
  }

  /// The names of nodes before Linux 6.3, which newer releases of the vendor's driver keep on older
  /// systems.
  void rename_nodes() const { fake_->nodes = {{"/dev/hl0", 0}, {"/dev/hl_controlD0", 0}}; }

  [[nodiscard]] Result<std::shared_ptr<MemoryDomain>> open_domain() const {
    Vendor vendor;
    vendor.driver = driver_;
    return open_with_driver(vendor, kOne);
  }

  void expect_nothing_left() const {
    EXPECT_THAT(fake_->open_fds, IsEmpty());
    EXPECT_THAT(fake_->mappings, IsEmpty());
    EXPECT_THAT(fake_->allocations, IsEmpty());
  }

  std::shared_ptr<FakeHabanalabs> fake_ = std::make_shared<FakeHabanalabs>();
  std::shared_ptr<KernelDriver> driver_ = std::make_shared<KernelDriver>(fake_);
  std::vector<std::string> lines_;

 private:
  fs::path root_ =
      fs::temp_directory_path() / ("gaudi-kernel-driver-" + std::to_string(::getpid()));
  std::string before_;
};

TEST_F(GaudiKernelDriver, OpensACardByItsAddressAndTellsWhichItIs) {
  const auto fd = driver_->open(kOne);
  ASSERT_TRUE(fd) << describe(fd.error());
  EXPECT_EQ(driver_->pci_address(*fd).value(), kOne);
  const auto facts = driver_->facts(*fd, kOne);
  ASSERT_TRUE(facts) << describe(facts.error());
  EXPECT_EQ(facts->device_id, 0x1020U);
  EXPECT_EQ(facts->dram_bytes, FakeHabanalabs::kDramBytes);
  EXPECT_EQ(facts->page_bytes, FakeHabanalabs::kPage);
  driver_->close(*fd);
  expect_nothing_left();
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(GaudiKernelDriver, TakesTheFirstCardThatIsFree) {
  fake_->nodes.at("/dev/accel/accel0") = EBUSY;
  const auto fd = driver_->open({});
  ASSERT_TRUE(fd) << describe(fd.error());
  driver_->close(*fd);
  fake_->nodes.at("/dev/accel/accel1") = EBUSY;
  const auto none = driver_->open({});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::busy);
  EXPECT_EQ(none.error().hint, Hint::gaudi_busy);
}

TEST_F(GaudiKernelDriver, SaysWhyACardCanNotBeOpened) {
  const auto hint_for = [&](int error_number, const char* address) {
    fake_->nodes.at("/dev/accel/accel0") = error_number;
    const auto fd = driver_->open(address);
    EXPECT_FALSE(fd);
    return fd ? Hint::none : fd.error().hint;
  };
  EXPECT_EQ(hint_for(EBUSY, kOne), Hint::gaudi_busy);
  EXPECT_EQ(hint_for(EAGAIN, kOne), Hint::gaudi_resetting);
  EXPECT_EQ(hint_for(ENXIO, kOne), Hint::no_such_gaudi_device);
  EXPECT_EQ(hint_for(0, "0000:99:00.0"), Hint::no_such_gaudi_device);
  EXPECT_EQ(driver_->open("0000:99:00.0").error().code, Errc::not_found);
  // DRM of Linux 6.12 returns this for a driver that lacks a flag, although the card exists.
  fake_->nodes.at("/dev/accel/accel0") = EINVAL;
  EXPECT_EQ(driver_->open(kOne).error().code, Errc::invalid_argument);
  EXPECT_EQ(driver_->open(kOne).error().stage, Stage::open);
  fake_->nodes.clear();
  EXPECT_EQ(driver_->open({}).error().hint, Hint::no_gaudi_device);
}

TEST_F(GaudiKernelDriver, KnowsTheOlderNamesOfNodes) {
  rename_nodes();
  const auto fd = driver_->open(kOne);
  ASSERT_TRUE(fd) << describe(fd.error());
  driver_->close(*fd);
  EXPECT_TRUE(driver_->answers_for(find_cards()));
  expect_nothing_left();
}

TEST_F(GaudiKernelDriver, KnowsTheOlderNumbersOfCalls) {
  fake_->is_before_6_7 = true;
  const auto domain = open_domain();
  ASSERT_TRUE(domain) << describe(domain.error());
  const auto memory = (*domain)->allocate(4096);
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_TRUE((*domain)->export_dmabuf(memory->address(), 4096));
}

TEST_F(GaudiKernelDriver, IsTakenWhereACardAnswers) {
  EXPECT_TRUE(driver_->answers_for(find_cards()));
  EXPECT_FALSE(driver_->answers_for({}));
  Card untaken;
  untaken.pci_address = kOne;
  EXPECT_FALSE(driver_->answers_for({untaken})) << "no driver has taken it";
  expect_nothing_left();
}

TEST_F(GaudiKernelDriver, IsNotTakenIfNoCardAnswers) {
  for (auto& [path, error] : fake_->nodes) error = ENXIO;
  EXPECT_FALSE(driver_->answers_for(find_cards()));
  // A user without rights cannot find out; the error must say that.
  for (auto& [path, error] : fake_->nodes) error = EACCES;
  EXPECT_TRUE(driver_->answers_for(find_cards()));
}

TEST_F(GaudiKernelDriver, IsNotTakenWhereTheNodeIsSomethingElse) {
  // A node that belongs to no driver, as with an emulated card.
  const KernelDriver of_this_machine;
  Card card;
  card.index = 4711;
  EXPECT_FALSE(of_this_machine.answers_for({card}));
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto facts = of_this_machine.facts(null.get(), "null");
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().number, ENOTTY);
}

TEST_F(GaudiKernelDriver, AsksAgainWithTheSameArgumentsAfterASignal) {
  const auto fd = driver_->open(kOne);
  ASSERT_TRUE(fd);
  fake_->interruptions = 3;
  EXPECT_EQ(driver_->facts(*fd, kOne).value().dram_bytes, FakeHabanalabs::kDramBytes);
  fake_->interruptions = 2;
  const auto handle = driver_->allocate(*fd, 3 * FakeHabanalabs::kPage, kOne);
  ASSERT_TRUE(handle) << describe(handle.error());
  EXPECT_EQ(fake_->allocations.at(*handle), 3 * FakeHabanalabs::kPage);
  driver_->free(*fd, *handle);
  driver_->close(*fd);
  expect_nothing_left();
}

TEST_F(GaudiKernelDriver, ExportsWholePagesFromTheBaseWithTheOnlyValidFlags) {
  const auto fd = driver_->open(kOne);
  ASSERT_TRUE(fd);
  const auto handle = driver_->allocate(*fd, 1, kOne);
  const auto address = driver_->map(*fd, *handle, kOne);
  ASSERT_TRUE(address) << describe(address.error());
  fake_->asked.clear();
  const auto dmabuf = driver_->export_mapping(*fd, *address, 5000, kOne);
  ASSERT_TRUE(dmabuf) << describe(dmabuf.error());
  ASSERT_THAT(fake_->asked, SizeIs(1));
  EXPECT_THAT(fake_->asked[0].word, ElementsAre(*address, 8192, 0));
  EXPECT_EQ(fake_->asked[0].flags, static_cast<std::uint32_t>(O_RDWR | O_CLOEXEC));
  driver_->close(*fd);
}

TEST_F(GaudiKernelDriver, ReportsRefusalsOfTheDriver) {
  const auto fd = driver_->open(kOne);
  ASSERT_TRUE(fd);
  const auto too_much = driver_->allocate(*fd, FakeHabanalabs::kDramBytes + 1, kOne);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().hint, Hint::device_memory_exhausted);
  EXPECT_THAT(describe(too_much.error()), HasSubstr("HL_MEM_OP_ALLOC"));
  EXPECT_EQ(driver_->map(*fd, 99, kOne).error().number, EINVAL);
  const auto handle = driver_->allocate(*fd, FakeHabanalabs::kPage, kOne);
  const auto address = driver_->map(*fd, *handle, kOne);
  const auto inside = driver_->export_mapping(*fd, *address + 4096, 4096, kOne);
  ASSERT_FALSE(inside);
  EXPECT_EQ(inside.error().hint, Hint::export_refused);
  EXPECT_EQ(inside.error().number, EINVAL);
  driver_->close(*fd);
}

TEST_F(GaudiKernelDriver, LogsCallsThatItCannotUndo) {
  const auto fd = driver_->open(kOne);
  ASSERT_TRUE(fd);
  const auto handle = driver_->allocate(*fd, 1, kOne);
  const auto address = driver_->map(*fd, *handle, kOne);
  const auto dmabuf = driver_->export_mapping(*fd, *address, 4096, kOne);
  ASSERT_TRUE(dmabuf);
  driver_->unmap(*fd, *address);
  driver_->free(*fd, *handle);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("HL_MEM_OP_UNMAP"), HasSubstr("HL_MEM_OP_FREE")));
  EXPECT_THAT(fake_->mappings, SizeIs(1));
  driver_->close(*fd);
}

TEST_F(GaudiKernelDriver, HasNoMemoryOfAFirstGenerationCard) {
  fake_->has_device_memory = false;
  const auto domain = open_domain();
  ASSERT_TRUE(domain) << describe(domain.error());
  const auto memory = (*domain)->allocate(4096);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().hint, Hint::gaudi1_memory);
  fake_->page_bytes = 0;
  EXPECT_EQ(open_domain().error().hint, Hint::gaudi1_memory);
}

TEST_F(GaudiKernelDriver, TellsACardsDescriptorFromAnyOther) {
  const Fd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(driver_->pci_address(zero.get()).error().code, Errc::invalid_argument);
  EXPECT_EQ(driver_->pci_address(-1).error().number, EBADF);
}

TEST_F(GaudiKernelDriver, ADomainGivesEverythingBackInOrder) {
  const int before = test::open_descriptors();
  {
    const auto domain = open_domain();
    ASSERT_TRUE(domain) << describe(domain.error());
    EXPECT_EQ((*domain)->device().driven_by, "habanalabs");
    EXPECT_EQ((*domain)->device().page_bytes, FakeHabanalabs::kPage);
    const auto small = (*domain)->allocate(64 << 10);
    const auto large = (*domain)->allocate(3 * FakeHabanalabs::kPage);
    ASSERT_TRUE(small && large);
    const auto range = (*domain)->export_dmabuf(large->address() + 4096, 100);
    ASSERT_TRUE(range) << describe(range.error());
    EXPECT_EQ(range->offset_bytes, 4096U);
    EXPECT_TRUE((*domain)->export_dmabuf(small->address(), 1));
  }
  expect_nothing_left();
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_THAT(lines_, IsEmpty());
}

/// Runs one life of a domain; returns false if a call failed.
bool live_once(const Result<std::shared_ptr<MemoryDomain>>& domain) {
  if (!domain) return false;
  const auto memory = (*domain)->allocate(2 * FakeHabanalabs::kPage);
  if (!memory) return false;
  return (*domain)->export_dmabuf(memory->address(), 4096).has_value();
}

TEST_F(GaudiKernelDriver, AnyCallThatFailsLeavesNothingBehind) {
  const int before = test::open_descriptors();
  int failures = 0;
  for (int n = 0; n < 100; ++n) {
    fake_->fail_nth(n, EIO);
    const bool was_well = live_once(open_domain());
    if (fake_->is_failure_to_come()) {
      EXPECT_TRUE(was_well);
      break;
    }
    failures += was_well ? 0 : 1;
    expect_nothing_left();
    EXPECT_EQ(test::open_descriptors(), before) << "call " << n;
  }
  // The calls are open, facts, allocate, map and export. A call that fails while resources are
  // released is repeated.
  EXPECT_EQ(failures, 5);
}

}  // namespace
}  // namespace hbmwire::memory::gaudi
