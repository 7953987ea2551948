// SPDX-License-Identifier: MIT
#include <string>

#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

Result<const NicPort*> port_of(const hbmwire_nics& nics, std::size_t index,
                               std::size_t port_index) {
  HBMWIRE_TRY_ASSIGN(const NicDevice* const device, nics.at(index));
  if (port_index >= device->ports.size()) return c::refuse("there is no port of this index");
  return &device->ports[port_index];
}

}  // namespace

void hbmwire_nic_device_init(hbmwire_nic_device* device, size_t struct_size) {
  c::initialise(device, struct_size, {});
}

void hbmwire_nic_info_init(hbmwire_nic_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

void hbmwire_gid_init(hbmwire_gid* gid, size_t struct_size) { c::initialise(gid, struct_size, {}); }

hbmwire_status hbmwire_context_nics(const hbmwire_context* context, hbmwire_nics** nics,
                                    hbmwire_error* error) {
  return c::create(nics, error, {{context, "context"}}, [&] { return context->value->nics(); });
}

size_t hbmwire_nics_count(const hbmwire_nics* nics) {
  return nics == nullptr ? 0 : nics->all.size();
}

hbmwire_status hbmwire_nics_get(const hbmwire_nics* nics, size_t index, hbmwire_nic_device* device,
                                hbmwire_error* refusal, hbmwire_error* error) {
  return c::run(error, {{nics, "nics"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(device, "device"));
    HBMWIRE_TRY(c::need_usable(refusal, "refusal"));
    HBMWIRE_TRY_ASSIGN(const NicDevice* const found, nics->at(index));
    const auto& imports = found->imports_dmabufs;
    c::fill(device, {.struct_size = 0,
                     .name = found->name.c_str(),
                     .pci_address = found->pci_address.c_str(),
                     .firmware = found->firmware.c_str(),
                     .port_count = found->ports.size(),
                     .numa_node = found->numa_node,
                     .scale_up = found->scale_up ? 1 : 0,
                     .imports_dmabufs = imports ? (*imports ? 1 : 0) : HBMWIRE_UNSET,
                     .max_qp = found->limits.max_qp,
                     .max_cq = found->limits.max_cq,
                     .max_cqe = found->limits.max_cqe,
                     .max_mr = found->limits.max_mr,
                     .max_srq = found->limits.max_srq,
                     .max_peers = found->limits.max_peers(),
                     .reserved = 0});
    c::tell_any(found->refusal, refusal);
    return {};
  });
}

hbmwire_status hbmwire_nics_port(const hbmwire_nics* nics, size_t index, size_t port_index,
                                 hbmwire_nic_info* port, hbmwire_error* refusal,
                                 hbmwire_error* error) {
  return c::run(error, {{nics, "nics"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(port, "port"));
    HBMWIRE_TRY(c::need_usable(refusal, "refusal"));
    HBMWIRE_TRY_ASSIGN(const NicPort* const found, port_of(*nics, index, port_index));
    hbmwire_nic_info told = c::nic_of(found->info);
    told.state = found->state.c_str();
    told.rate_bits_per_second = found->rate_bits_per_second;
    told.gid_count = found->gids.size();
    c::fill(port, told);
    c::tell_any(found->refusal, refusal);
    return {};
  });
}

hbmwire_status hbmwire_nics_gid(const hbmwire_nics* nics, size_t index, size_t port_index,
                                size_t gid_index, hbmwire_gid* gid, hbmwire_error* error) {
  return c::run(error, {{nics, "nics"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(gid, "gid"));
    HBMWIRE_TRY_ASSIGN(const NicPort* const port, port_of(*nics, index, port_index));
    if (gid_index >= port->gids.size()) return c::refuse("there is no GID of this index");
    const GidInfo& found = port->gids[gid_index];
    c::fill(gid, {.struct_size = 0,
                  .gid = found.gid.c_str(),
                  .type = found.type.c_str(),
                  .interface_name = found.interface.c_str(),
                  .index = found.index,
                  .reserved = 0});
    return {};
  });
}

void hbmwire_nics_free(hbmwire_nics* nics) { delete nics; }

void hbmwire_near_nic_init(hbmwire_near_nic* nic, size_t struct_size) {
  c::initialise(nic, struct_size, {});
}

hbmwire_status hbmwire_context_nics_near(const hbmwire_context* context, const char* pci_address,
                                         const hbmwire_nics* nics, hbmwire_near_nics** near,
                                         hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {context, "context"}, {pci_address, "pci_address"}, {nics, "nics"}};
  return c::create(near, error, needed, [&] {
    return Result<std::vector<NearNic>>(context->value->nics_near(pci_address, nics->all));
  });
}

size_t hbmwire_near_nics_count(const hbmwire_near_nics* nics) {
  return nics == nullptr ? 0 : nics->all.size();
}

hbmwire_status hbmwire_near_nics_get(const hbmwire_near_nics* nics, size_t index,
                                     hbmwire_near_nic* nic, hbmwire_error* error) {
  return c::run(error, {{nics, "nics"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(nic, "nic"));
    HBMWIRE_TRY_ASSIGN(const NearNic* const found, nics->at(index));
    c::fill(nic, {.struct_size = 0,
                  .name = found->name.c_str(),
                  .pci_address = found->pci_address.c_str(),
                  .numa_node = found->numa_node,
                  .distance = c::number_of(found->distance)});
    return {};
  });
}

void hbmwire_near_nics_free(hbmwire_near_nics* nics) { delete nics; }

int32_t hbmwire_context_numa_node(const hbmwire_context* context, const char* pci_address) {
  if (context == nullptr || pci_address == nullptr) return -1;
  int32_t node = -1;
  // run() lets no exception out; the function has no other way to tell of a failure than -1.
  c::run(nullptr, {}, [&]() -> Result<void> {
    node = context->value->numa_node(pci_address);
    return {};
  });
  return node;
}

void hbmwire_pci_link_init(hbmwire_pci_link* link, size_t struct_size) {
  c::initialise(link, struct_size, {});
}

hbmwire_status hbmwire_context_pci_link(const hbmwire_context* context, const char* pci_address,
                                        const char* towards, hbmwire_pci_link* link,
                                        hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{context, "context"},
                                                  {pci_address, "pci_address"}};
  return c::run(error, needed, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(link, "link"));
    const auto found = context->value->pci_link(pci_address, c::text_of(towards));
    if (!found) {
      return tl::make_unexpected(
          make_error(Errc::not_found, Stage::probe, "sysfs tells of no PCIe link", pci_address));
    }
    hbmwire_pci_link told{};
    told.gigatransfers_per_second = found->gigatransfers_per_second;
    told.bytes_per_second = found->bytes_per_second();
    told.lanes = found->lanes;
    c::copy_text(told.at, sizeof told.at, [&] { return std::string_view(found->at); });
    c::fill(link, told);
    return {};
  });
}
