// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/plan.hpp"

#include <algorithm>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

#include "tools/common/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/pairs/timing.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kMostOfAKind = 256;  // the most NICs, or memories, of one machine
constexpr std::size_t kLongestName = 128;  // the longest name of one of them

/// Adds the ports that can be tried. If a NIC has none, adds its first port with the reason.
void add_ports(const NicDevice& nic, std::vector<PlanNic>& nics) {
  const auto add = [&](const NicPort* port, const std::optional<Error>& refusal) {
    PlanNic& added = nics.emplace_back();
    added.name = nic.name;
    added.address = nic.pci_address;
    if (port != nullptr && nic.ports.size() > 1) added.name += fmt::format(":{}", port->info.port);
    if (refusal) added.refusal = error_of(*refusal);
  };
  if (nic.refusal || nic.ports.empty()) return add(nullptr, nic.refusal);
  const auto usable = [](const NicPort& port) { return !port.refusal; };
  if (std::ranges::none_of(nic.ports, usable))
    return add(&nic.ports.front(), nic.ports.front().refusal);
  for (const NicPort& port : nic.ports) {
    if (usable(port)) add(&port, std::nullopt);
  }
}

/// Adds a NIC by its name, as for Nic::open(), even if its port is down.
Outcome<void> add_named(const std::string& name, const std::vector<NicDevice>& all,
                        std::vector<PlanNic>& nics) {
  const std::string device = name.substr(0, name.find(':'));
  const auto found = std::ranges::find(all, device, &NicDevice::name);
  const auto opened = Nic::open(name);
  // A port that the NIC does not have is an error of the user, not the failure of a pair. So is a
  // text that names no port.
  if (!opened && (found == all.end() || opened.error().hint == Hint::no_such_rdma_device))
    return tl::make_unexpected(opened.error());
  PlanNic& added = nics.emplace_back();
  added.name = name;
  if (found != all.end()) added.address = found->pci_address;
  if (!opened) added.refusal = error_of(opened.error());
  return {};
}

Outcome<void> add_nics(const Context& context, const Selection& selection, Plan& plan) {
  const auto all = context.nics();
  if (!all && selection.nics.empty()) {
    plan.no_nics = error_of(all.error());
    return {};
  }
  for (const std::string& name : selection.nics)
    HBMWIRE_TRY(add_named(name, all ? *all : std::vector<NicDevice>(), plan.nics));
  if (!selection.nics.empty()) return {};
  for (const NicDevice& nic : *all) {
    if (!nic.scale_up) add_ports(nic, plan.nics);
  }
  if (plan.nics.empty()) {
    plan.no_nics = error_of(make_error(Errc::not_found, Stage::probe,
                                       "all RDMA devices are a Gaudi's own scale-up NICs", {},
                                       Hint::no_rdma_device));
  }
  return {};
}

void add_device(const DeviceInfo& device, std::size_t index, Plan& plan) {
  const bool on_host = device.type == MemoryType::host;
  const std::string number = std::to_string(index);
  plan.memories.push_back(
      {.type = device.type,
       .device = on_host                      ? ""
                 : device.pci_address.empty() ? number
                                              : device.pci_address,
       .label = on_host ? "host" : fmt::format("{} {}", to_string(device.type), number),
       .name = device.name,
       .address = device.pci_address});
}

/// Fails if a choice names no device: an empty report would hide the mistake.
Outcome<void> check_choice(const MemoryProbe& probe, const MemoryChoice& choice) {
  for (std::size_t i = 0; i < probe.devices.size(); ++i) {
    if (is_chosen(choice, probe.devices[i], i)) return {};
  }
  if (probe.missing) return tl::make_unexpected(*probe.missing);
  return fail(fmt::format("probe: --memory {}:{}: there is no such device; `hbmwire info -d` lists "
                          "those that there are",
                          to_string(choice.type), choice.device),
              kExitUnavailable);
}

Outcome<void> add_memories(const Context& context, const Selection& selection, Plan& plan) {
  const auto& choices = selection.memories;
  for (const MemoryProbe& probe : context.memory()) {
    if (std::ranges::find(kAllocatedTypes, probe.type) == kAllocatedTypes.end()) continue;
    for (const MemoryChoice& choice : choices) {
      if (choice.type == probe.type) HBMWIRE_TRY(check_choice(probe, choice));
    }
    for (std::size_t i = 0; i < probe.devices.size(); ++i) {
      if (selection.has(probe.devices[i], i)) add_device(probe.devices[i], i, plan);
    }
  }
  return {};
}

/// The nearest NIC on PCI. For host memory, or if no distance is known, the first one.
std::string nearest_of(const Context& context, const PlanMemory& memory, const Plan& plan) {
  const auto usable = [](const PlanNic& nic) { return !nic.refusal; };
  const auto all = context.nics().value_or(std::vector<NicDevice>());
  for (const NearNic& near : context.nics_near(memory.address, all)) {
    for (const PlanNic& nic : plan.nics) {
      if (usable(nic) && nic.name.substr(0, nic.name.find(':')) == near.name) return nic.name;
    }
  }
  const auto first = std::ranges::find_if(plan.nics, usable);
  return first == plan.nics.end() ? std::string() : first->name;
}

}  // namespace

Pair pair_of(const PlanMemory& memory, const std::string& by, const std::string& by_address) {
  Pair pair;
  pair.memory = memory.label;
  pair.device = memory.name;
  pair.device_address = memory.address;
  pair.by = by;
  pair.by_address = by_address;
  return pair;
}

Outcome<Plan> make_plan(const Selection& selection) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  Plan plan;
  HBMWIRE_TRY(add_nics(context, selection, plan));
  HBMWIRE_TRY(add_memories(context, selection, plan));
  for (PlanMemory& memory : plan.memories) memory.near = nearest_of(context, memory, plan);
  if (is_emulated())
    plan.memcpy_bytes_per_second = memcpy_bytes_per_second(kPieceBytes, kWindowBytes);
  return plan;
}

void tell_plan(const Selection& selection, Voice& voice) {
  voice.step("", "probe");
  const auto plan = make_plan(selection);
  voice.say(plan ? Json{{"plan", to_json(*plan)}} : failure_json(plan.error()));
}

Json to_json(const Plan& plan) {
  Json nics = Json::array();
  for (const PlanNic& nic : plan.nics)
    nics.push_back(
        {{"name", nic.name}, {"address", nic.address}, {"refusal", to_json(nic.refusal)}});
  Json memories = Json::array();
  for (const PlanMemory& memory : plan.memories) {
    memories.push_back({{"type", static_cast<int>(memory.type)},
                        {"device", memory.device},
                        {"label", memory.label},
                        {"name", memory.name},
                        {"address", memory.address},
                        {"near", memory.near}});
  }
  return {{"nics", std::move(nics)},
          {"memories", std::move(memories)},
          {"no_nics", to_json(plan.no_nics)},
          {"memcpy", plan.memcpy_bytes_per_second}};
}

namespace {

std::string name_at(const Json& json, std::string_view key) {
  return wire::printable(text_at(json, key).substr(0, kLongestName));
}

PlanNic nic_in(const Json& json) {
  return {.name = name_at(json, "name"),
          .address = name_at(json, "address"),
          .refusal = error_from_json(member(json, "refusal"))};
}

PlanMemory memory_in(const Json& json) {
  PlanMemory memory{.device = name_at(json, "device"),
                    .label = name_at(json, "label"),
                    .name = name_at(json, "name"),
                    .address = name_at(json, "address"),
                    .near = name_at(json, "near")};
  for (const MemoryType type : kAllocatedTypes) {
    if (number_at(json, "type") == static_cast<std::uint64_t>(type)) memory.type = type;
  }
  return memory;
}

template <class T>
Outcome<std::vector<T>> list_at(const Json& json, const char* key, T (*item)(const Json&)) {
  const Json& list = member(json, key);
  if (!list.is_array() || list.size() > kMostOfAKind) {
    return fail(
        fmt::format("probe: \"{}\" of the machine is no list of at most {} entries; choose "
                    "fewer with -d and --memory",
                    key, kMostOfAKind));
  }
  std::vector<T> all;
  for (const Json& each : list) all.push_back(item(each));
  return all;
}

}  // namespace

Outcome<Plan> plan_from_json(const Json& json) {
  Plan plan;
  HBMWIRE_TRY_ASSIGN(plan.nics, list_at(json, "nics", nic_in));
  HBMWIRE_TRY_ASSIGN(plan.memories, list_at(json, "memories", memory_in));
  plan.no_nics = error_from_json(member(json, "no_nics"));
  const Json& memcpy = member(json, "memcpy");
  if (memcpy.is_number() && memcpy.get<double>() > 0)
    plan.memcpy_bytes_per_second = memcpy.get<double>();
  return plan;
}

}  // namespace hbmwire::tools::doctor
