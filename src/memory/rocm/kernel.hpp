// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

// The features of the running kernel, checked before the first transfer. A kernel that cannot let a
// NIC into a GPU's memory silently moves that memory to the host when the NIC asks for it.
namespace hbmwire::memory::rocm {

/// `unknown` is an answer of its own, and forbids nothing.
enum class Known : std::uint8_t { unknown, no, yes };

/// The answer in one line of a kernel's configuration for `option` ("CONFIG_PCI_P2PDMA"). A module
/// counts as yes.
[[nodiscard]] Known option_in_line(std::string_view line, std::string_view option) noexcept;

/// Reads a file line by line, even if it is compressed by gzip, until `visit` returns false.
/// Returns false if the file cannot be read.
bool for_each_line(const std::filesystem::path& file,
                   const std::function<bool(std::string_view line)>& visit);

/// The answers for the running kernel.
class Kernel {
 public:
  /// `config`: the file with its configuration (HBMWIRE_ROCM_KERNEL_CONFIG), which is the only
  /// source then. Empty: uses the places of distributions (/proc/config.gz, /boot, /lib/modules),
  /// and /proc/kallsyms.
  explicit Kernel(std::string_view config);

  /// CONFIG_PCI_P2PDMA: devices may access each other.
  [[nodiscard]] Known p2pdma() const noexcept { return p2pdma_; }

  /// CONFIG_DMABUF_MOVE_NOTIFY: a GPU's memory may stay in place while a NIC uses it. Kernels of
  /// 2026 do not have this option any more, and always can: it is unknown there.
  [[nodiscard]] Known move_notify() const noexcept { return move_notify_; }

 private:
  void read_config(const std::filesystem::path& file);
  void read_symbols();

  Known p2pdma_ = Known::unknown;
  Known move_notify_ = Known::unknown;
};

/// The file in sysfs of amdgpu's peer-memory client (of an OFED's ib_core, or of ib_peer_mem); no
/// value if the client is missing. With the client, a NIC registers GPU memory by address.
[[nodiscard]] std::optional<std::string> peer_memory_client();

/// Whether PCI exposes all of the GPU's memory at once, because its largest window is at least as
/// large. Unknown if sysfs does not tell.
[[nodiscard]] Known large_bar(const std::string& pci_address, std::uint64_t memory_bytes);

}  // namespace hbmwire::memory::rocm
