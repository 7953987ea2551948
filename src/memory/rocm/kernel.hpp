// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

// What the running kernel can do, asked before the first transfer: a kernel that can't let a NIC
// into a GPU's memory moves that memory to the host when the NIC asks for it, without a word.
namespace hbmwire::memory::rocm {

/// Not knowing is an answer of its own, and forbids nothing.
enum class Known : std::uint8_t { unknown, no, yes };

/// What a line of a kernel's configuration says of `option` ("CONFIG_PCI_P2PDMA"). Modules count.
[[nodiscard]] Known option_in_line(std::string_view line, std::string_view option) noexcept;

/// Reads a file by lines, gzip's too, until `visit` says false. False when it can't be read.
bool for_each_line(const std::filesystem::path& file,
                   const std::function<bool(std::string_view line)>& visit);

/// Answers of the running kernel.
class Kernel {
 public:
  /// `config`: its configuration (HBMWIRE_ROCM_KERNEL_CONFIG), the only source then; empty: where
  /// distributions keep it (/proc/config.gz, /boot, /lib/modules), and /proc/kallsyms.
  explicit Kernel(std::string_view config);

  /// CONFIG_PCI_P2PDMA: devices may reach each other.
  [[nodiscard]] Known p2pdma() const noexcept { return p2pdma_; }

  /// CONFIG_DMABUF_MOVE_NOTIFY: a GPU's memory may stay where it is while a NIC uses it. Kernels of
  /// 2026 have no such option any more, and always can: unknown there.
  [[nodiscard]] Known move_notify() const noexcept { return move_notify_; }

 private:
  void read_config(const std::filesystem::path& file);
  void read_symbols();

  Known p2pdma_ = Known::unknown;
  Known move_notify_ = Known::unknown;
};

/// The file that amdgpu's peer-memory client (of an OFED's ib_core, or of ib_peer_mem) shows in
/// sysfs; nothing when the client is not there. With it a NIC registers GPU memory by address.
[[nodiscard]] std::optional<std::string> peer_memory_client();

/// Whether PCI shows all of the GPU's memory at once: its largest window is as large as that.
/// Unknown where sysfs does not tell.
[[nodiscard]] Known large_bar(const std::string& pci_address, std::uint64_t memory_bytes);

}  // namespace hbmwire::memory::rocm
