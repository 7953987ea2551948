// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/kernel_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "tools/doctor/evidence/packed_bytes.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kSymbols = "/proc/kallsyms";
constexpr std::string_view kPackedConfig = "/proc/config.gz";
constexpr std::size_t kMostConfigText = std::size_t{4} << 20U;
// The largest kernels have a fifth of this.
constexpr std::size_t kMostKernelText = std::size_t{128} << 20U;

constexpr std::string_view kSymbolBeginnings[] = {
    "dma_buf_move_notify", "ib_register_peer_memory_client", "ib_umem_dmabuf_", "nvidia_p2p_",
    "pci_p2pdma_",         "vfio_pci_core_feature_dma_buf"};

constexpr std::string_view kOptionParts[] = {
    "AMDGPU",   "CGROUP_RDMA", "DMABUF",  "DMA_SHARED_BUFFER", "DRM_ACCEL",
    "DRM_XE",   "HABANALABS",  "HSA_AMD", "INFINIBAND",        "IOMMU",
    "MLX5",     "P2PDMA",      "RDMA",    "UDMABUF",           "USERFAULTFD",
    "VFIO_PCI", "ZONE_DEVICE"};

bool is_config(std::string_view path) {
  const bool in_modules =
      path.starts_with("/lib/modules/") || path.starts_with("/usr/lib/modules/");
  return path == kPackedConfig || path.starts_with("/boot/config-") ||
         path.starts_with("/usr/lib/kernel/config-") ||
         path.starts_with("/usr/lib/ostree-boot/config-") ||
         (in_modules && (path.ends_with("/config") || path.ends_with("/.config"))) ||
         (path.starts_with("/usr/src/") && path.ends_with("/.config"));
}

/// Keeps "CONFIG_X=y" and "# CONFIG_X is not set".
std::optional<std::string> config_line(std::string_view line) {
  const bool matters = std::ranges::any_of(
      kOptionParts, [&](auto part) { return line.find(part) != std::string_view::npos; });
  if (!matters || line.find("CONFIG_") == std::string_view::npos) return std::nullopt;
  return std::string(line);
}

/// Keeps "ffffffff81000000 T name", also with a tab and "[module]" after it.
std::optional<std::string> symbol_line(std::string_view line) {
  const std::size_t type = line.find(' ');
  if (type == std::string_view::npos || type + 3 > line.size()) return std::nullopt;
  const std::string_view name = line.substr(type + 3);  // behind " T "
  if (std::ranges::none_of(kSymbolBeginnings, [&](auto text) { return name.starts_with(text); }))
    return std::nullopt;
  return std::string(type, '0') + std::string(line.substr(type));
}

using LineFilter = std::optional<std::string> (*)(std::string_view line);

/// Takes text piece by piece, and keeps the lines that the filter returns.
class KeptLines {
 public:
  explicit KeptLines(LineFilter filter) : filter_(filter) {}

  void add(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      begun_.append(piece.substr(0, end));
      if (end == std::string_view::npos) return;
      finish_line();
      piece.remove_prefix(end + 1);
    }
  }

  std::string take() {
    finish_line();
    return std::move(kept_);
  }

 private:
  void finish_line() {
    const auto line = filter_(begun_);
    if (line && kept_.size() + line->size() < kMaxFileBytes) kept_ += *line + "\n";
    begun_.clear();
  }

  LineFilter filter_;
  std::string begun_;
  std::string kept_;
};

/// Calls `use` with each piece of the file; returns errno, or 0.
template <class Use>
int read_pieces(int fd, std::size_t most_bytes, Use use) {
  std::array<char, 65536> piece{};
  std::size_t have = 0;
  while (have < most_bytes) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    have += static_cast<std::size_t>(got);
    use(std::string_view(piece.data(), static_cast<std::size_t>(got)));
  }
  return 0;
}

}  // namespace

bool is_kernel_text(const std::string& path) { return path == kSymbols || is_config(path); }

Answer read_kernel_text(const std::string& path, int fd) {
  KeptLines lines(path == kSymbols ? symbol_line : config_line);
  std::string packed;
  const bool is_packed = path == kPackedConfig;
  const int error =
      read_pieces(fd, is_packed ? kMostConfigText : kMostKernelText, [&](std::string_view piece) {
        if (is_packed) {
          packed += piece;
        } else {
          lines.add(piece);
        }
      });
  if (error != 0) return {.error = error, .value = {}};
  if (is_packed) {
    const Inflated config = inflated(packed, kMostConfigText);
    if (config.state != Inflation::whole) return {.error = EIO, .value = {}};
    lines.add(config.bytes);
  }
  return {.error = 0, .value = lines.take()};
}

}  // namespace hbmwire::tools::doctor
