// SPDX-License-Identifier: MIT
#include "emulation/tool/kept_devices.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "emulation/common/first_line.hpp"

namespace hbmwire::emulation::tool {
namespace {

namespace fs = std::filesystem;

using Links = std::vector<KeptLink>;

/// The places of a family's devices besides bus/pci/devices. NVIDIA's driver has no class of its
/// own.
std::vector<std::string_view> classes_of(CardFamily family) {
  switch (family) {
    case CardFamily::gaudi:
      return {"class/accel", "class/habanalabs"};
    case CardFamily::rocm:
      return {"class/drm"};
    case CardFamily::cuda:
      break;
  }
  return {};
}

/// The prefixes of the names of a family's libraries.
std::vector<std::string_view> libraries_of(CardFamily family) {
  switch (family) {
    case CardFamily::gaudi:
      return {"libhl-thunk.", "libSynapse."};
    case CardFamily::cuda:
      return {"libcuda."};
    case CardFamily::rocm:
      return {"libhsa-runtime64.", "libamdhip64."};
  }
  return {};
}

/// Adds the entries of `folder` in `sysfs` whose targets `wanted` selects.
template <class Wanted>
void add_links(const fs::path& sysfs, std::string_view folder, Wanted wanted, Links& links) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(sysfs / folder, failure)) {
    std::error_code lost;  // a device may disappear at any moment
    const auto target = fs::canonical(entry.path(), lost);
    if (!lost && wanted(target)) links.push_back({folder / entry.path().filename(), target});
  }
}

bool lies_below(const fs::path& path, const Links& devices) {
  return std::ranges::any_of(devices, [&](const KeptLink& device) {
    return path.string().starts_with(device.target.string() + '/');
  });
}

void add_family(const fs::path& sysfs, const Hardware& hardware, CardFamily family, Links& links) {
  const auto vendor = fmt::format("0x{:04x}", model_of(hardware, family).pci.vendor);
  Links devices;
  add_links(
      sysfs, "bus/pci/devices",
      [&](const fs::path& device) { return emulation::first_line(device / "vendor") == vendor; },
      devices);
  links.insert(links.end(), devices.begin(), devices.end());
  Links entries;
  for (const auto folder : classes_of(family)) {
    add_links(
        sysfs, folder, [&](const fs::path& entry) { return lies_below(entry, devices); }, entries);
  }
  links.insert(links.end(), entries.begin(), entries.end());
  if (entries.empty()) return;
  add_links(
      sysfs, "dev/char",
      [&](const fs::path& node) {
        return std::ranges::find(entries, node, &KeptLink::target) != entries.end();
      },
      links);
}

bool is_kept(const std::string& name, const Hardware& hardware) {
  return std::ranges::any_of(kCardFamilies, [&](CardFamily family) {
    return hardware.keeps(family) &&
           std::ranges::any_of(libraries_of(family),
                               [&](std::string_view start) { return name.starts_with(start); });
  });
}

}  // namespace

std::vector<KeptLink> kept_links(const fs::path& sysfs, const Hardware& hardware) {
  Links links;
  for (const auto family : kCardFamilies) {
    if (hardware.keeps(family)) add_family(sysfs, hardware, family, links);
  }
  return links;
}

Result<fs::path> libraries_but_kept(const fs::path& libraries, const fs::path& node,
                                    const Hardware& hardware) {
  if (hardware.kept.none()) return libraries;
  const auto folder = node / "libraries";
  std::error_code failure;
  fs::create_directory(folder, failure);
  if (failure) return cannot("create " + folder.string(), failure.value());
  for (const auto& entry : fs::directory_iterator(libraries, failure)) {
    const auto name = entry.path().filename();
    if (is_kept(name.string(), hardware)) continue;
    std::error_code refused;
    fs::create_symlink(entry.path(), folder / name, refused);
    if (refused && refused != std::errc::file_exists)
      return cannot("create " + (folder / name).string(), refused.value());
  }
  if (failure) return cannot("read " + libraries.string(), failure.value());
  return folder;
}

}  // namespace hbmwire::emulation::tool
