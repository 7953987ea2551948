// SPDX-License-Identifier: MIT
#include "hbmwire/settings.hpp"

#include <string>

#include "hbmwire/host_port.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

void hbmwire_setting_init(hbmwire_setting* setting, size_t struct_size) {
  c::initialise(setting, struct_size, {});
}

hbmwire_status hbmwire_settings_check(hbmwire_error* error) {
  return c::run(error, {}, []() -> Result<void> {
    HBMWIRE_TRY(settings_from_environment());
    return {};
  });
}

hbmwire_status hbmwire_settings_describe(hbmwire_settings** settings, hbmwire_error* error) {
  return c::create(settings, error, {},
                   [] { return Result<std::vector<SettingInfo>>(describe_settings()); });
}

size_t hbmwire_settings_count(const hbmwire_settings* settings) {
  return settings == nullptr ? 0 : settings->all.size();
}

hbmwire_status hbmwire_settings_get(const hbmwire_settings* settings, size_t index,
                                    hbmwire_setting* setting, hbmwire_error* error) {
  return c::run(error, {{settings, "settings"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(setting, "setting"));
    HBMWIRE_TRY_ASSIGN(const SettingInfo* const one, settings->at(index));
    // The views are of literals, which end with a NUL.
    c::fill(setting, {.struct_size = 0,
                      .name = one->name.data(),
                      .choices = one->choices.data(),
                      .help = one->help.data(),
                      .default_value = one->default_value.c_str(),
                      .value = one->value.c_str(),
                      .source = one->source.c_str()});
    return {};
  });
}

void hbmwire_settings_free(hbmwire_settings* settings) { delete settings; }

hbmwire_status hbmwire_split_host_port(const char* text, int32_t default_port, char* host,
                                       size_t capacity, uint16_t* port, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{text, "text"}, {host, "host"}, {port, "port"}};
  return c::run(error, needed, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto otherwise,
                       c::optional_of<std::uint16_t>(default_port, "default_port"));
    HBMWIRE_TRY_ASSIGN(const HostPort split, split_host_port(text, otherwise));
    if (split.host.size() >= capacity)
      return c::refuse("there is no room for the host", split.host);
    c::copy_text(host, capacity, [&] { return std::string_view(split.host); });
    *port = split.port;
    return {};
  });
}

size_t hbmwire_join_host_port(const char* host, uint16_t port, char* text, size_t capacity) {
  return c::copy_text(text, capacity,
                      [&] { return host == nullptr ? std::string() : join_host_port(host, port); });
}
