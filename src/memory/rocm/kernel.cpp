// SPDX-License-Identifier: MIT
#include "memory/rocm/kernel.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include "base/dynamic_library.hpp"
#include "base/sysfs.hpp"

namespace hbmwire::memory::rocm {

namespace {

/// The functions of zlib, loaded at run time.
struct Gzip {
  DynamicLibrary library;
  void* (*open)(const char* path, const char* mode) = nullptr;
  char* (*gets)(void* file, char* line, int size) = nullptr;
  int (*close)(void* file) = nullptr;
};

/// zlib, which practically every system has. It also reads files that are not compressed.
std::optional<Gzip> load_gzip() {
  Gzip gzip;
  auto library = DynamicLibrary::open({"libz.so.1"}, Hint::none);
  if (!library) return std::nullopt;
  gzip.library = std::move(*library);
  gzip.open = gzip.library.find<void*(const char*, const char*)>("gzopen");
  gzip.gets = gzip.library.find<char*(void*, char*, int)>("gzgets");
  gzip.close = gzip.library.find<int(void*)>("gzclose");
  const bool complete = gzip.open != nullptr && gzip.gets != nullptr && gzip.close != nullptr;
  return complete ? std::optional(std::move(gzip)) : std::nullopt;
}

std::string_view without_newline(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

bool for_each_gzip_line(const std::filesystem::path& file,
                        const std::function<bool(std::string_view line)>& visit) {
  const auto gzip = load_gzip();
  if (!gzip) return false;
  void* const opened = gzip->open(file.c_str(), "r");
  if (opened == nullptr) return false;
  std::array<char, 4096> line{};  // longer than any line of a configuration
  while (gzip->gets(opened, line.data(), static_cast<int>(line.size())) != nullptr) {
    if (!visit(without_newline(line.data()))) break;
  }
  gzip->close(opened);
  return true;
}

std::uint64_t parse_hex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

/// The size in one line of a PCI device's `resource` file: "<first> <last> <flags>".
std::uint64_t window_bytes(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  const std::uint64_t first = parse_hex(line.substr(0, space));
  const std::uint64_t last =
      parse_hex(line.substr(space + 1, line.find(' ', space + 1) - space - 1));
  return last > first ? last - first + 1 : 0;
}

}  // namespace

Known option_in_line(std::string_view line, std::string_view option) noexcept {
  constexpr std::string_view kUnset = "# ";
  if (line.starts_with(kUnset) && line.substr(kUnset.size()).starts_with(option) &&
      line.substr(kUnset.size() + option.size()) == " is not set")
    return Known::no;
  if (!line.starts_with(option)) return Known::unknown;
  const std::string_view value = line.substr(option.size());
  if (value == "=y" || value == "=m") return Known::yes;
  return value == "=n" ? Known::no : Known::unknown;
}

bool for_each_line(const std::filesystem::path& file,
                   const std::function<bool(std::string_view line)>& visit) {
  if (file.extension() == ".gz") return for_each_gzip_line(file, visit);
  std::ifstream opened(file);
  for (std::string line; std::getline(opened, line);) {
    if (!visit(line)) return true;
  }
  return opened.eof();
}

Kernel::Kernel(std::string_view config) {
  if (!config.empty()) {
    read_config(config);
    return;
  }
  utsname system{};
  ::uname(&system);
  const std::string release = system.release;
  for (const std::filesystem::path& file :
       {std::filesystem::path("/proc/config.gz"), std::filesystem::path("/boot/config-" + release),
        std::filesystem::path("/lib/modules/" + release + "/config"),
        std::filesystem::path("/lib/modules/" + release + "/build/.config")}) {
    if (p2pdma_ != Known::unknown && move_notify_ != Known::unknown) return;
    read_config(file);
  }
  if (p2pdma_ == Known::unknown) read_symbols();
}

void Kernel::read_config(const std::filesystem::path& file) {
  for_each_line(file, [this](std::string_view line) {
    if (p2pdma_ == Known::unknown) p2pdma_ = option_in_line(line, "CONFIG_PCI_P2PDMA");
    if (move_notify_ == Known::unknown)
      move_notify_ = option_in_line(line, "CONFIG_DMABUF_MOVE_NOTIFY");
    return p2pdma_ == Known::unknown || move_notify_ == Known::unknown;
  });
}

// Every kernel with CONFIG_PCI_P2PDMA has the function that amdgpu calls, and all users can read
// its name, even where addresses are hidden. (dma_buf_move_notify exists with and without the other
// option, so it proves nothing.) If a list lacks even printk, it is incomplete and proves
// nothing.
void Kernel::read_symbols() {
  bool complete = false;
  bool found = false;
  for_each_line("/proc/kallsyms", [&](std::string_view line) {
    complete = complete || line.ends_with(" _printk") || line.ends_with(" printk");
    found = found || line.find(" pci_p2pdma_distance_many") != std::string_view::npos;
    return !found;
  });
  if (found) {
    p2pdma_ = Known::yes;
  } else if (complete) {
    p2pdma_ = Known::no;
  }
}

std::optional<std::string> peer_memory_client() {
  // The place depends on the OFED's release.
  for (const char* file : {"kernel/mm/memory_peers/amdkfd/version",
                           "kernel/memory_peers/amdkfd/version", "memory_peers/amdkfd/version"}) {
    const auto path = sysfs_root() / file;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return std::nullopt;
}

Known large_bar(const std::string& pci_address, std::uint64_t memory_bytes) {
  std::uint64_t largest = 0;
  for_each_line(sysfs_root() / "bus/pci/devices" / pci_address / "resource",
                [&](std::string_view line) {
                  largest = std::max(largest, window_bytes(line));
                  return true;
                });
  // In a virtual machine or a container, the file may be missing or contain only zeros.
  if (largest == 0 || memory_bytes == 0) return Known::unknown;
  return largest >= memory_bytes ? Known::yes : Known::no;
}

}  // namespace hbmwire::memory::rocm
