// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "handles.hpp"
#include "words.hpp"

namespace hbmwire::c {

Result<Slice> slice_of(const hbmwire_slice* slice) noexcept {
  HBMWIRE_TRY(need({{slice, "a slice"}}));
  HBMWIRE_TRY(need({{slice->region, "a slice's region"}}));
  return Slice{slice->region->at, slice->offset_bytes, slice->length_bytes};
}

Result<RemoteSlice> slice_of(const hbmwire_remote_slice* slice) noexcept {
  HBMWIRE_TRY(need({{slice, "a remote slice"}}));
  HBMWIRE_TRY(need({{slice->region, "a remote slice's region"}}));
  return RemoteSlice{&*slice->region->value, slice->offset_bytes, slice->length_bytes};
}

Result<Access> access_of(hbmwire_access access) noexcept {
  if ((access & ~static_cast<std::uint32_t>(kAllAccess)) != 0)
    return refuse("access with bits that hbmwire.h has no constant for");
  return static_cast<Access>(access);
}

Result<std::vector<std::string>> names_of(const char* const* names, std::size_t count) {
  if (count != 0) HBMWIRE_TRY(need({{names, "names"}}));
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) {
    HBMWIRE_TRY(need({{names[i], "a name"}}));
    all.emplace_back(names[i]);
  }
  return all;
}

Result<PathPolicy> policy_of(hbmwire_path require, const hbmwire_path* allow, std::size_t count) {
  PathPolicy policy;
  if (require != HBMWIRE_UNSET) {
    HBMWIRE_TRY_ASSIGN(policy.require, enum_of(require, Path::shared_memory, "require_path"));
  }
  if (count != 0) HBMWIRE_TRY(need({{allow, "allow_paths"}}));
  for (std::size_t i = 0; i < count; ++i) {
    HBMWIRE_TRY_ASSIGN(const Path path, enum_of(allow[i], Path::shared_memory, "allow_paths"));
    policy.allow.push_back(path);
  }
  return policy;
}

Result<MemoryOptions> memory_options_of(const hbmwire_memory_options* options) {
  hbmwire_memory_options defaults;
  hbmwire_memory_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_memory_options given, options_of(options, defaults));
  using Pages = HostMemoryOptions::Pages;
  MemoryOptions made;
  made.device = text_of(given.device);
  HBMWIRE_TRY_ASSIGN(made.owner, enum_of(given.owner, MemoryOptions::Owner::hl_thunk, "owner"));
  HBMWIRE_TRY_ASSIGN(made.host.pages, enum_of(given.pages, Pages::huge_1g, "pages"));
  made.host.shared = given.shared != 0;
  made.host.numa_node = given.numa_node;
  return made;
}

Result<DmabufMemory> dmabuf_of(const hbmwire_dmabuf* dmabuf) {
  hbmwire_dmabuf defaults;
  hbmwire_dmabuf_init(&defaults, sizeof defaults);
  HBMWIRE_TRY(need({{dmabuf, "dmabuf"}}));
  HBMWIRE_TRY_ASSIGN(const hbmwire_dmabuf given, options_of(dmabuf, defaults));
  return DmabufMemory{.fd = given.fd,
                      .offset_bytes = given.offset_bytes,
                      .length_bytes = given.length_bytes,
                      .mapping = given.mapping,
                      .read_only = given.read_only != 0};
}

Result<PutOptions> put_options_of(const hbmwire_put_options* options) {
  hbmwire_put_options defaults;
  hbmwire_put_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_put_options given, options_of(options, defaults));
  PutOptions made;
  HBMWIRE_TRY_ASSIGN(made.level, enum_of(given.level, CompletionLevel::visible, "level"));
  if (given.has_immediate != 0) made.immediate = given.immediate;
  return made;
}

Result<AttachAddress> address_of(const hbmwire_attach_address* address) {
  HBMWIRE_TRY(need({{address, "an attach address"}}));
  const auto* const end = std::find(std::begin(address->socket), std::end(address->socket), '\0');
  if (end == std::end(address->socket)) return refuse("an attach address without its NUL");
  AttachAddress made;
  made.socket.assign(std::begin(address->socket), end);
  std::copy(std::begin(address->secret), std::end(address->secret), made.secret.begin());
  return made;
}

void fill_address(hbmwire_attach_address& to, const AttachAddress& from) noexcept {
  to = {};
  const std::size_t fits = std::min(from.socket.size(), sizeof to.socket - 1);
  std::memcpy(to.socket, from.socket.data(), fits);
  std::copy(from.secret.begin(), from.secret.end(), std::begin(to.secret));
}

Result<MemoryKeyOptions> key_options_of(const hbmwire_memory_key_options* options) {
  hbmwire_memory_key_options defaults;
  hbmwire_memory_key_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_memory_key_options given, options_of(options, defaults));
  MemoryKeyOptions made;
  made.offset_bytes = given.offset_bytes;
  if (given.length_bytes != UINT64_MAX) made.length_bytes = given.length_bytes;
  if (given.access != HBMWIRE_UNSET) {
    HBMWIRE_TRY_ASSIGN(made.access, access_of(static_cast<hbmwire_access>(given.access)));
  }
  made.revocable = given.revocable != 0;
  if (given.expires_after_ns >= 0)
    made.expires_after = std::chrono::nanoseconds(given.expires_after_ns);
  if (given.attach != nullptr) {
    HBMWIRE_TRY_ASSIGN(made.attach, address_of(given.attach));
  }
  return made;
}

hbmwire_device device_of(const DeviceInfo& info) noexcept {
  return {.struct_size = 0,
          .name = info.name.c_str(),
          .pci_address = info.pci_address.c_str(),
          .driven_by = info.driven_by.c_str(),
          .status = info.status.c_str(),
          .size_bytes = info.size_bytes,
          .page_bytes = info.page_bytes,
          .type = number_of(info.type),
          .numa_node = info.numa_node};
}

hbmwire_nic_info nic_of(const NicInfo& info) noexcept {
  return {.struct_size = 0,
          .name = info.name.c_str(),
          .pci_address = info.pci_address.c_str(),
          .firmware = info.firmware.c_str(),
          .gid = info.gid.c_str(),
          .gid_type = info.gid_type.c_str(),
          .state = "",
          .max_message_bytes = info.max_message_bytes,
          .rate_bits_per_second = 0,
          .gid_count = 0,
          .mtu_bytes = info.mtu_bytes,
          .port = info.port,
          .gid_index = info.gid_index,
          .ethernet = info.ethernet ? 1 : 0};
}

hbmwire_path_tried tried_of(const PathTried& tried) noexcept {
  return {.struct_size = 0,
          .nic = tried.nic.c_str(),
          .path = number_of(tried.path),
          .taken = tried.taken ? 1 : 0};
}

}  // namespace hbmwire::c
