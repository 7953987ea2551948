// SPDX-License-Identifier: MIT
#include "emulation/nic/abi/layout.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace hbmwire::emulation::nic::abi {
namespace {

static_assert(std::ranges::is_sorted(kLayouts, {}, &Layout::context_words));

/// The first release with an operation; 0: all known releases have it.
constexpr unsigned first_release(Operation operation) {
  using enum Operation;
  switch (operation) {
    case alloc_dmah:
    case dealloc_dmah:
    case reg_mr_ex:
      return 59;
    case dm_export_dmabuf_fd:
    case query_port_speed:
      return 62;
    case alloc_buf:
    case free_buf:
      return 64;
    case create_comp_cntr:
    case destroy_comp_cntr:
    case inc_comp_cntr:
    case inc_err_comp_cntr:
    case qp_attach_comp_cntr:
    case query_comp_cntr_caps:
    case read_comp_cntr:
    case read_err_comp_cntr:
    case set_comp_cntr:
    case set_err_comp_cntr:
      return 65;
    default:
      return 0;
  }
}

bool has(const Layout& layout, std::size_t operation) {
  return first_release(static_cast<Operation>(operation)) <= layout.first_release;
}

/// The number of the layout's operations in front of the one numbered `end`.
std::size_t count_before(const Layout& layout, std::size_t end) {
  std::size_t count = 0;
  for (std::size_t operation = 0; operation < end; ++operation) count += has(layout, operation);
  return count;
}

bool registers_drivers(void* library, unsigned abi) {
  const std::string number = std::to_string(abi);
  const std::string symbol = "verbs_register_driver_" + number;
  const std::string version = "IBVERBS_PRIVATE_" + number;
  return ::dlvsym(library, symbol.c_str(), version.c_str()) != nullptr;
}

/// Recognises rdma-core 62, which changed the interface without a new N, by a function that is new
/// in it.
bool is_62_or_later(void* library) {
  return ::dlvsym(library, "ibv_query_port_speed", "IBVERBS_1.16") != nullptr;
}

}  // namespace

std::size_t count_operations(const Layout& layout) { return count_before(layout, kOperations); }

std::vector<Entry> lay_out(const Layout& layout, std::span<const Implementation> implementations) {
  std::vector<Entry> table(count_operations(layout), nullptr);
  for (const Implementation& one : implementations) {
    const auto operation = static_cast<std::size_t>(one.operation);
    if (has(layout, operation)) table[count_before(layout, operation)] = one.function;
  }
  return table;
}

const Layout* find_layout(void* library) {
  for (const Layout& layout : kLayouts) {
    if (!registers_drivers(library, layout.abi)) continue;
    const bool is_older_of_two = layout.abi == 59 && layout.last_release < 62;
    if (is_older_of_two && is_62_or_later(library)) continue;
    return &layout;
  }
  return nullptr;
}

std::string known_releases() {
  return "rdma-core " + std::to_string(kLayouts.front().first_release) + " to " +
         std::to_string(kLayouts.back().last_release);
}

std::string release_of(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "unknown";
  std::error_code failure;
  const auto file = std::filesystem::canonical(map->l_name, failure);
  if (failure) return "unknown";
  const auto name = file.filename().string();
  constexpr std::string_view kPrefix = "libibverbs.so.1.";
  if (!name.starts_with(kPrefix)) return file.string();
  const auto minor_end = name.find('.', kPrefix.size());
  return minor_end == std::string::npos ? file.string() : name.substr(minor_end + 1);
}

}  // namespace hbmwire::emulation::nic::abi
