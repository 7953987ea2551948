// SPDX-License-Identifier: MIT
#include <algorithm>

#include "hbmwire/memory_key.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

Result<void> tell_key(const MemoryKeyInfo& key, hbmwire_memory_key_info* info) {
  HBMWIRE_TRY(c::need_answer(info, "info"));
  hbmwire_memory_key_info told{};
  told.address = key.address;
  told.length_bytes = key.length_bytes;
  told.incarnation = key.incarnation;
  told.expires_unix_ns =
      key.expires ? key.expires->time_since_epoch().count() : std::int64_t{HBMWIRE_FOREVER};
  told.nic_count = key.nics.size();
  told.type = c::number_of(key.type);
  told.access = static_cast<hbmwire_access>(key.access);
  told.path = c::number_of(key.path);
  told.has_attach = key.attach ? 1 : 0;
  if (key.attach) c::fill_address(told.attach, *key.attach);
  c::fill(info, told);
  return {};
}

}  // namespace

void hbmwire_memory_key_options_init(hbmwire_memory_key_options* options, size_t struct_size) {
  hbmwire_memory_key_options made{};
  made.length_bytes = UINT64_MAX;
  made.expires_after_ns = HBMWIRE_FOREVER;
  made.access = HBMWIRE_UNSET;
  c::initialise(options, struct_size, made);
}

void hbmwire_memory_key_info_init(hbmwire_memory_key_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_memory_key_pack(const hbmwire_region* region,
                                       const hbmwire_memory_key_options* options,
                                       hbmwire_memory_key** key, hbmwire_error* error) {
  return c::create(key, error, {{region, "region"}}, [&]() -> Result<MemoryKey> {
    HBMWIRE_TRY_ASSIGN(const MemoryKeyOptions wanted, c::key_options_of(options));
    return MemoryKey::pack(*region->at, wanted);
  });
}

const void* hbmwire_memory_key_bytes(const hbmwire_memory_key* key, size_t* size) {
  if (size != nullptr) *size = key == nullptr ? 0 : key->value->bytes().size();
  return key == nullptr ? nullptr : key->value->bytes().data();
}

hbmwire_status hbmwire_memory_key_get_info(const hbmwire_memory_key* key,
                                           hbmwire_memory_key_info* info, hbmwire_error* error) {
  return c::run(error, {{key, "key"}}, [&] { return tell_key(key->value->info(), info); });
}

bool hbmwire_memory_key_revocable(const hbmwire_memory_key* key) {
  return key != nullptr && key->value->revocable();
}

bool hbmwire_memory_key_valid(const hbmwire_memory_key* key) {
  return key != nullptr && key->value->valid();
}

hbmwire_status hbmwire_memory_key_revoke(hbmwire_memory_key* key, hbmwire_error* error) {
  return c::run(error, {{key, "key"}}, [&] { return key->value->revoke(); });
}

void hbmwire_memory_key_free(hbmwire_memory_key* key) { delete key; }

hbmwire_status hbmwire_remote_key_unpack(const void* bytes, size_t size, hbmwire_remote_key** key,
                                         hbmwire_error* error) {
  return c::create(key, error, {{bytes, "bytes"}}, [&]() -> Result<RemoteKey> {
    HBMWIRE_TRY_ASSIGN(const auto all, c::bytes_of(bytes, size));
    return RemoteKey::unpack(all);
  });
}

hbmwire_status hbmwire_remote_key_get_info(const hbmwire_remote_key* key,
                                           hbmwire_memory_key_info* info, hbmwire_error* error) {
  return c::run(error, {{key, "key"}}, [&] { return tell_key(key->value->info(), info); });
}

hbmwire_status hbmwire_remote_key_nic(const hbmwire_remote_key* key, size_t index, uint8_t* gid,
                                      uint32_t* remote_key, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {key, "key"}, {gid, "gid"}, {remote_key, "remote_key"}};
  return c::run(error, needed, [&]() -> Result<void> {
    const auto& nics = key->value->info().nics;
    if (index >= nics.size()) return c::refuse("the key names no NIC of this index");
    std::copy(nics[index].gid.begin(), nics[index].gid.end(), gid);
    *remote_key = nics[index].remote_key;
    return {};
  });
}

void hbmwire_remote_key_free(hbmwire_remote_key* key) { delete key; }
