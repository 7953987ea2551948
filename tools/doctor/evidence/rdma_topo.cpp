// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/rdma_topo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <set>

#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kMostFunctions = 8192;
constexpr std::size_t kMostNames = 1024;  // in one subsystem of one function
constexpr std::size_t kMostConfigBytes = 4096;
constexpr std::size_t kMostVpdBytes = 32768;  // a VPD address has 15 bits, PCI 3.0 appendix I
constexpr std::string_view kFunctionsFolder = "/sys/bus/pci/devices";

/// Whether this is "dddd:bb:dd.f": a domain of four digits or more, all in lower-case hexadecimal.
bool is_pci_address(std::string_view text) {
  constexpr std::string_view kShape = "xx:xx.x";
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon < 4 || colon > 8) return false;
  const std::string_view tail = text.substr(colon + 1);
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::ranges::all_of(text.substr(0, colon), is_digit) && tail.size() == kShape.size() &&
         std::ranges::equal(tail, kShape, [&](char c, char shape) {
           return shape == 'x' ? is_digit(c) : c == shape;
         });
}

/// The kernel's text for a link's speed, as in pci_speed_string(); empty if it has none.
std::string_view speed_text(unsigned code) {
  constexpr std::array<std::string_view, 7> kSpeeds = {"",
                                                       "2.5 GT/s PCIe",
                                                       "5.0 GT/s PCIe",
                                                       "8.0 GT/s PCIe",
                                                       "16.0 GT/s PCIe",
                                                       "32.0 GT/s PCIe",
                                                       "64.0 GT/s PCIe"};
  return code < kSpeeds.size() ? kSpeeds[code] : "";
}

/// Converts a dump into a record, function by function.
class TopoImport {
 public:
  Foreign<Record> run(const SortedJson& dump) {
    record_.partial = true;
    if (dump.size() > kMostFunctions)
      return tl::make_unexpected(fmt::format("it has more than {} functions", kMostFunctions));
    for (const SortedJson& function : dump) {
      if (!add(function)) return tl::make_unexpected(problem_);
    }
    put_folder(std::string(kFunctionsFolder), addresses_);
    put_folder("/sys/class/infiniband", rdma_devices_);
    return std::move(record_);
  }

 private:
  bool refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
    return false;
  }

  static const SortedJson* find(const SortedJson& object, const char* key) {
    const auto at = object.find(key);
    return at != object.end() && !at->is_null() ? &*at : nullptr;
  }

  bool add(const SortedJson& function) {
    if (!function.is_object()) return refuse("a function is no object");
    const SortedJson* const real = find(function, "realpath");
    if (real == nullptr || !real->is_string())
      return refuse("a function has no \"realpath\": it is no dump of rdma_topo");
    real_ = real->get<std::string>();
    address_ = real_.substr(real_.rfind('/') + 1);
    if (!is_real_path() || !is_pci_address(address_))
      return refuse(fmt::format("the \"realpath\" {} is none of a PCI function", real_));
    if (!addresses_.insert(address_).second)
      return refuse(fmt::format("it has the function {} twice", address_));
    put_target(record_.real_paths, "", real_);
    return add_config(function) && add_vpd(function) && add_modalias(function) &&
           add_group(function) && add_node(function) && add_subsystems(function);
  }

  [[nodiscard]] bool is_real_path() const {
    return real_.starts_with("/sys/devices/") && real_.size() <= kMaxPathBytes / 2 &&
           real_.find("//") == std::string::npos && real_.find("/.") == std::string::npos &&
           real_.find('\0') == std::string::npos;
  }

  // Unpacks base64 of zlib's format.
  std::optional<std::string> unpack(const SortedJson& function, const char* key,
                                    std::size_t most_bytes) {
    const SortedJson* const coded = find(function, key);
    const auto packed = coded != nullptr && coded->is_string()
                            ? from_base64(coded->get_ref<const std::string&>())
                            : std::nullopt;
    Inflated result = packed ? inflated(*packed, most_bytes) : Inflated{};
    if (result.state == Inflation::whole) return std::move(result.bytes);
    refuse(result.state == Inflation::truncated
               ? fmt::format("the \"{}\" of {} has more than {} bytes", key, address_, most_bytes)
               : fmt::format("the \"{}\" of {} is no base64 of zlib's format", key, address_));
    return std::nullopt;
  }

  bool add_config(const SortedJson& function) {
    auto bytes = unpack(function, "config", kMostConfigBytes);
    if (!bytes) return false;
    const PciConfig config(std::move(*bytes));
    put_file("config", config.bytes());
    add_identity(config);
    add_link(config);
    return true;
  }

  /// Adds the files that the kernel derives from the header (PCI local bus specification 3.0, 6.1).
  void add_identity(const PciConfig& config) {
    const auto put = [&](const char* name, std::optional<std::uint16_t> value) {
      if (value) put_file(name, fmt::format("0x{:04x}\n", *value));
    };
    put("vendor", config.u16(0x00));
    put("device", config.u16(0x02));
    if (const auto word = config.u32(0x08))
      put_file("class", fmt::format("0x{:06x}\n", *word >> 8));
    const auto type = config.u8(0x0e);
    if (!type || (*type & 0x7fU) != 0) return;  // a bridge has no subsystem here
    put("subsystem_vendor", config.u16(0x2c));
    put("subsystem_device", config.u16(0x2e));
  }

  /// Adds the files about the link: PCI Express base specification 7.5.3.6 and 7.5.3.8.
  void add_link(const PciConfig& config) {
    const auto express = config.find_capability(kPciExpressCapability);
    if (!express.is_found()) return;
    const auto most = config.u32(express.offset + 0x0c);
    const auto now = config.u16(express.offset + 0x12);
    if (!most || !now) return;
    put_link("max", *most);
    put_link("current", *now);
  }

  void put_link(std::string_view which, std::uint32_t word) {
    const std::string_view speed = speed_text(word & 0xfU);
    if (speed.empty()) return;
    put_file(fmt::format("{}_link_speed", which), fmt::format("{}\n", speed));
    put_file(fmt::format("{}_link_width", which), fmt::format("{}\n", word >> 4U & 0x3fU));
  }

  bool add_vpd(const SortedJson& function) {
    if (find(function, "vpd") == nullptr) {
      put_error(record_.files, "vpd", ENOENT);
      return true;
    }
    auto bytes = unpack(function, "vpd", kMostVpdBytes);
    if (bytes) put_file("vpd", std::move(*bytes));
    return bytes.has_value();
  }

  bool add_modalias(const SortedJson& function) {
    const SortedJson* const text = find(function, "modalias");
    if (text == nullptr || !text->is_string() ||
        text->get_ref<const std::string&>().size() >= kMaxFileBytes)
      return refuse(fmt::format("the \"modalias\" of {} is none", address_));
    put_file("modalias", text->get<std::string>() + "\n");
    return true;
  }

  bool add_group(const SortedJson& function) {
    const SortedJson* const group = find(function, "iommu_group");
    if (group == nullptr) {
      put_error(record_.links, "iommu_group", ENOENT);
      put_error(record_.real_paths, "iommu_group", ENOENT);
      return true;
    }
    if (!group->is_number_unsigned())
      return refuse(fmt::format("the \"iommu_group\" of {} is no number", address_));
    const std::string path = fmt::format("kernel/iommu_groups/{}", group->get<std::uint64_t>());
    put_target(record_.links, "iommu_group", way_to_sys() + path);
    put_target(record_.real_paths, "iommu_group", "/sys/" + path);
    return true;
  }

  bool add_node(const SortedJson& function) {
    const SortedJson* const node = find(function, "numa_node");
    if (node == nullptr) {
      put_error(record_.files, "numa_node", ENOENT);
      return true;
    }
    if (!node->is_number_integer())
      return refuse(fmt::format("the \"numa_node\" of {} is no number", address_));
    put_file("numa_node", fmt::format("{}\n", node->get<std::int64_t>()));
    return true;
  }

  bool add_subsystems(const SortedJson& function) {
    static const SortedJson kNone = SortedJson::object();
    const SortedJson* const given = find(function, "subsystems");
    const SortedJson& subsystems = given != nullptr ? *given : kNone;
    if (!subsystems.is_object())
      return refuse(fmt::format("the \"subsystems\" of {} are no object", address_));
    // rdma_topo looks for these four, so one that the dump lacks does not exist.
    for (const char* subsystem : {"drm", "infiniband", "net", "nvme"}) {
      std::set<std::string> names;
      const SortedJson* const list = find(subsystems, subsystem);
      if (list == nullptr) {
        record_.folders[pci_path(address_, subsystem)] = {.error = ENOENT, .values = {}};
        continue;
      }
      if (!read_names(*list, names)) return false;
      for (const std::string& name : names) add_device(subsystem, name);
      put_folder(pci_path(address_, subsystem), names);
    }
    return true;
  }

  bool read_names(const SortedJson& list, std::set<std::string>& names) {
    const bool good = list.is_array() && list.size() <= kMostNames;
    for (const SortedJson& name : good ? list : SortedJson::array()) {
      if (name.is_string() && is_device_name(name.get_ref<const std::string&>()))
        names.insert(name.get<std::string>());
    }
    if (good && names.size() == list.size()) return true;
    return refuse(fmt::format("the \"subsystems\" of {} are no lists of names", address_));
  }

  static bool is_device_name(std::string_view name) {
    constexpr std::size_t kMostBytes = 255;
    return !name.empty() && name.size() <= kMostBytes && name != "." && name != ".." &&
           name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
  }

  /// Adds the device to the folder of its class.
  void add_device(std::string_view subsystem, const std::string& name) {
    const std::string in_class = fmt::format("/sys/class/{}/{}", subsystem, name);
    const std::string own = fmt::format("{}/{}/{}", real_, subsystem, name);
    record_.real_paths[in_class] = {.error = 0, .value = own};
    // The link leads from its folder below /sys/class to /sys, whose 4 bytes `own` begins with.
    record_.links[in_class] = {.error = 0, .value = "../.." + own.substr(4)};
    record_.real_paths[in_class + "/device"] = {.error = 0, .value = real_};
    record_.links[in_class + "/device"] = {.error = 0, .value = "../../../" + address_};
    if (subsystem == "infiniband") rdma_devices_.insert(name);
  }

  // "../../../": the path from the function's folder to /sys.
  [[nodiscard]] std::string way_to_sys() const {
    std::string way;
    for (auto i = std::ranges::count(real_, '/') - 1; i > 0; --i) way += "../";
    return way;
  }

  void put_file(std::string_view name, std::string bytes) {
    record_.files[pci_path(address_, name)] = {.error = 0, .value = std::move(bytes)};
  }

  /// An empty `name` means the function itself.
  void put_target(std::map<std::string, Answer>& to, std::string_view name, std::string target) {
    const std::string path =
        name.empty() ? fmt::format("{}/{}", kFunctionsFolder, address_) : pci_path(address_, name);
    to[path] = {.error = 0, .value = std::move(target)};
  }

  void put_error(std::map<std::string, Answer>& to, std::string_view name, int error) {
    to[pci_path(address_, name)] = {.error = error, .value = {}};
  }

  void put_folder(std::string path, const std::set<std::string>& names) {
    record_.folders[std::move(path)] = {.error = 0, .values = {names.begin(), names.end()}};
  }

  Record record_;
  std::string problem_;
  std::string real_;     ///< real path of the function that is read now
  std::string address_;  ///< its address
  std::set<std::string> addresses_;
  std::set<std::string> rdma_devices_;
};

}  // namespace

Foreign<Record> record_of_rdma_topo(const SortedJson& dump) { return TopoImport().run(dump); }

}  // namespace hbmwire::tools::doctor
