// SPDX-License-Identifier: MIT
#include <cctype>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>

#include "ends.hpp"

// Errors, options, and texts.
namespace hbmwire::c_test {
namespace {

TEST(CErrors, AFailureIsToldInFull) {
  auto options = HBMWIRE_MADE(hbmwire_context_options);
  const char* const nics[] = {"no such NIC"};
  options.nics = nics;
  options.nic_count = 1;
  const Context context = make_context(&options);
  hbmwire_region* none = nullptr;
  Failure failed;
  ASSERT_EQ(hbmwire_context_allocate_region(context.get(), HBMWIRE_MEMORY_HOST, kBytes, kAll,
                                            nullptr, &none, &failed.error),
            HBMWIRE_NOT_FOUND);
  EXPECT_EQ(failed.error.stage, HBMWIRE_STAGE_PROBE);
  EXPECT_EQ(failed.error.hint, HBMWIRE_HINT_NO_SUCH_RDMA_DEVICE);
  EXPECT_STREQ(failed.error.subject, "no such NIC");
  EXPECT_STRNE(failed.error.call, "");
  EXPECT_NE(failed.text().find("no such NIC"), std::string::npos);
  EXPECT_NE(failed.text().find(hbmwire_hint_text(failed.error.hint)), std::string::npos);
  char own[256];
  hbmwire_error_describe_with(&failed.error, "read the manual", own, sizeof own);
  EXPECT_NE(std::string(own).find("; read the manual"), std::string::npos);
  hbmwire_error_describe_with(&failed.error, nullptr, own, sizeof own);
  EXPECT_EQ(std::string(own).find(";"), std::string::npos);
  EXPECT_FALSE(hbmwire_error_is_shortage(&failed.error));
  // A text is cut to fit the buffer.
  char little[8];
  EXPECT_EQ(hbmwire_error_describe(&failed.error, little, sizeof little), failed.text().size());
  EXPECT_EQ(std::string(little), failed.text().substr(0, 7));
  EXPECT_EQ(hbmwire_error_describe(&failed.error, nullptr, 0), failed.text().size());
  // The error of a successful call is empty.
  auto versions = HBMWIRE_MADE(hbmwire_versions);
  EXPECT_EQ(hbmwire_get_versions(&versions, &failed.error), HBMWIRE_OK);
  EXPECT_EQ(failed.error.code, HBMWIRE_OK);
  EXPECT_EQ(failed.text(), "");
  EXPECT_EQ(versions.major, 0);
  EXPECT_GT(versions.endpoint_protocol, 0U);
}

TEST(CErrors, NumbersAreDecoded) {
  Failure failed;
  failed.error.code = HBMWIRE_SYSTEM;
  failed.error.number_kind = HBMWIRE_NUMBER_ERRNO;
  failed.error.number = ENOMEM;
  char text[64];
  hbmwire_error_number_text(&failed.error, text, sizeof text);
  EXPECT_NE(std::string(text).find("(ENOMEM, 12)"), std::string::npos);
  EXPECT_TRUE(hbmwire_error_is_shortage(&failed.error));
  // Numbers unknown to this version must not cause a crash.
  failed.error.code = failed.error.stage = failed.error.hint = failed.error.number_kind = 1000;
  failed.error.call = nullptr;
  EXPECT_NE(failed.text(), "");
}

TEST(CErrors, AnErrorThatIsNotMadeIsRefused) {
  auto versions = HBMWIRE_MADE(hbmwire_versions);
  Failure failed;
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{1} << 40U}) {
    failed.error.struct_size = size;
    failed.error.code = 77;
    EXPECT_EQ(hbmwire_get_versions(&versions, &failed.error), HBMWIRE_INVALID_ARGUMENT);
    EXPECT_EQ(failed.error.code, 77);
    EXPECT_EQ(hbmwire_error_describe(&failed.error, nullptr, 0), 0U);
  }
  EXPECT_EQ(hbmwire_get_versions(nullptr, nullptr), HBMWIRE_INVALID_ARGUMENT);
  auto probe = HBMWIRE_MADE(hbmwire_memory_probe);
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_context_memory(make_context().get(), HBMWIRE_MEMORY_HOST, &probe, &failed.error,
                                  error);
  });
}

TEST(CErrors, AShorterErrorIsWrittenAsFarAsItGoes) {
  // The error structure of a program that was compiled with a header in which it ended before
  // `call`.
  struct {
    hbmwire_error error;
    unsigned char behind;
  } old{};

  std::memset(&old, 0x5A, sizeof old);
  hbmwire_error_init(&old.error, offsetof(hbmwire_error, call));
  EXPECT_EQ(hbmwire_context_create(nullptr, nullptr, &old.error), HBMWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(old.error.code, HBMWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(old.error.struct_size, offsetof(hbmwire_error, call));
  const auto* const call = reinterpret_cast<const unsigned char*>(&old.error.call);
  EXPECT_EQ(*call, 0x5A);
  EXPECT_EQ(old.behind, 0x5A);
  EXPECT_GT(hbmwire_error_describe(&old.error, nullptr, 0), 0U);
}

/// Options of a later version, with one more member.
struct LaterOptions {
  hbmwire_worker_options known;
  std::uint64_t unknown;
};

TEST(COptions, FieldsOfALaterVersionMustBeZero) {
  const Context context = make_context();
  LaterOptions later;
  std::memset(&later, 0xFF, sizeof later);
  hbmwire_worker_options_init(&later.known, sizeof later);
  EXPECT_EQ(later.unknown, 0U);
  EXPECT_EQ(later.known.struct_size, sizeof later);
  const Worker worker = make_worker(context, &later.known);
  later.unknown = 1;
  hbmwire_worker* none = nullptr;
  const std::string why = refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_worker_create(context.get(), &later.known, &none, error);
  });
  EXPECT_NE(why.find("later version"), std::string::npos);
}

TEST(COptions, AnEarlierShorterStructGetsDefaultsForTheRest) {
  const Context context = make_context();
  auto options = HBMWIRE_MADE(hbmwire_worker_options);
  options.struct_size = offsetof(hbmwire_worker_options, max_transfers);
  options.max_transfers = 0;  // behind the structure's end, so it is not read
  options.threads = 99;
  const Worker worker = make_worker(context, &options);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{1} << 20U}) {
    options.struct_size = size;
    hbmwire_worker* none = nullptr;
    refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
      return hbmwire_worker_create(context.get(), &options, &none, error);
    });
    auto info = HBMWIRE_MADE(hbmwire_device);
    info.struct_size = size;
    refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
      return hbmwire_context_device(context.get(), HBMWIRE_MEMORY_HOST, 0, &info, error);
    });
  }
}

TEST(COptions, NumbersOutOfRangeAreRefused) {
  const Ends ends;
  const auto connect = [&](const hbmwire_endpoint_options& options) {
    return refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
      hbmwire_pending_endpoint* none = nullptr;
      return hbmwire_endpoint_start_connect(ends.a_worker.get(), "127.0.0.1:1", kSecond, &options,
                                            &none, error);
    });
  };
  auto options = HBMWIRE_MADE(hbmwire_endpoint_options);
  options.messages = 2;
  EXPECT_NE(connect(options).find("messages"), std::string::npos);
  options = HBMWIRE_MADE(hbmwire_endpoint_options);
  options.service_level = 256;
  EXPECT_NE(connect(options).find("service_level"), std::string::npos);
  options = HBMWIRE_MADE(hbmwire_endpoint_options);
  options.require_path = 77;
  connect(options);
  options = HBMWIRE_MADE(hbmwire_endpoint_options);
  options.allow_path_count = 1;
  connect(options);
  options = HBMWIRE_MADE(hbmwire_endpoint_options);
  options.hello_bytes = 1;
  connect(options);
  auto wrong = HBMWIRE_MADE(hbmwire_context_options);
  hbmwire_context* none = nullptr;
  wrong.memory_type_count = 1;
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_context_create(&wrong, &none, error); });
  const hbmwire_memory_type type = -3;
  wrong.memory_types = &type;
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_context_create(&wrong, &none, error); });
  const hbmwire_slice nowhere{nullptr, 0, 1};
  hbmwire_transfer* transfer = nullptr;
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_endpoint_send(ends.a.get(), &nowhere, HBMWIRE_LEVEL_SENT, &transfer, error);
  });
  const hbmwire_slice beyond = ends.here(1, kBytes);
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_endpoint_send(ends.a.get(), &beyond, HBMWIRE_LEVEL_SENT, &transfer, error);
  });
  const hbmwire_slice here = ends.here();
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_endpoint_send(ends.a.get(), &here, 3, &transfer, error);
  });
}

TEST(CWords, KnownNumbersHaveAWordAndOthersHaveNone) {
  using Name = const char* (*)(std::int32_t);
  const std::map<Name, std::int32_t> last{{hbmwire_memory_type_name, HBMWIRE_MEMORY_DMABUF},
                                          {hbmwire_path_name, HBMWIRE_PATH_SHARED_MEMORY},
                                          {hbmwire_level_name, HBMWIRE_LEVEL_VISIBLE},
                                          {hbmwire_protocol_name, HBMWIRE_PROTOCOL_PROXIED},
                                          {hbmwire_placement_name, HBMWIRE_PLACEMENT_TWO_NODES},
                                          {hbmwire_phase_name, HBMWIRE_PHASE_CLOSED},
                                          {hbmwire_distance_name, HBMWIRE_DISTANCE_UNKNOWN},
                                          {hbmwire_log_level_name, HBMWIRE_LOG_DEBUG},
                                          {hbmwire_status_name, HBMWIRE_SYSTEM},
                                          {hbmwire_stage_name, HBMWIRE_STAGE_FILE}};
  for (const auto& [name, greatest] : last) {
    for (std::int32_t number = 0; number <= greatest; ++number) EXPECT_STRNE(name(number), "");
    EXPECT_STREQ(name(greatest + 1), "");
    EXPECT_STREQ(name(-1), "");
    EXPECT_STREQ(name(INT32_MAX), "");
  }
  EXPECT_STREQ(hbmwire_status_name(HBMWIRE_PEER_FAILED), "the peer failed");
  EXPECT_STREQ(hbmwire_path_name(HBMWIRE_PATH_ZERO_COPY), "zero-copy dma-buf");
}

TEST(CWords, EachHintIsAConstantOfTheHeader) {
  std::ifstream header(HBMWIRE_C_HINTS);
  std::stringstream text;
  text << header.rdbuf();
  const std::string all = text.str();
  int count = 0;
  const std::regex constant(R"(HBMWIRE_HINT_(\w+) = (\d+))");
  for (auto one = std::sregex_iterator(all.begin(), all.end(), constant);
       one != std::sregex_iterator(); ++one, ++count) {
    std::string name = (*one)[1];
    for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
    const int number = std::stoi((*one)[2]);
    EXPECT_EQ(hbmwire_hint_name(number), name);
    EXPECT_EQ(hbmwire_hint_from_name(name.c_str()), number);
    EXPECT_TRUE(number == 0 || *hbmwire_hint_text(number) != '\0') << name;
  }
  EXPECT_GT(count, 100);
  EXPECT_STREQ(hbmwire_hint_name(count), "") << "a hint that hbmwire/c/hint.h lacks";
  EXPECT_EQ(hbmwire_hint_from_name("no such hint"), -1);
  EXPECT_EQ(hbmwire_hint_from_name(nullptr), -1);
  EXPECT_STREQ(hbmwire_hint_text(-1), "");
}

TEST(CLog, LinesGoToTheProgram) {
  struct Lines {
    std::mutex lock;
    std::string all;
  } lines;

  const auto sink = [](void* user, hbmwire_log_level level, const char* line, std::size_t length) {
    auto& to = *static_cast<Lines*>(user);
    const std::lock_guard locked(to.lock);
    to.all += std::string(hbmwire_log_level_name(level)) + ": " + std::string(line, length) + "\n";
  };
  good([&](auto* error) { return hbmwire_set_log_sink(sink, &lines, error); });
  hbmwire_set_log_level(HBMWIRE_LOG_INFO);
  hbmwire_log_line(HBMWIRE_LOG_INFO, "a line of the program's");
  hbmwire_log_line(HBMWIRE_LOG_DEBUG, "too much");
  hbmwire_log_line(99, "no level");
  hbmwire_log_line(HBMWIRE_LOG_INFO, nullptr);
  hbmwire_set_log_level(99);
  hbmwire_set_log_level(HBMWIRE_LOG_WARN);
  good([&](auto* error) { return hbmwire_set_log_sink(nullptr, nullptr, error); });
  EXPECT_EQ(lines.all, "info: a line of the program's\n");
}

TEST(CSettings, AllSettingsAreListed) {
  using Settings = std::unique_ptr<hbmwire_settings, Freed<hbmwire_settings_free>>;
  good([](auto* error) { return hbmwire_settings_check(error); });
  const auto settings = make<Settings>(
      [](auto** made, auto* error) { return hbmwire_settings_describe(made, error); });
  ASSERT_GT(hbmwire_settings_count(settings.get()), 10U);
  auto one = HBMWIRE_MADE(hbmwire_setting);
  std::map<std::string, std::string> choices;
  for (std::size_t i = 0; i < hbmwire_settings_count(settings.get()); ++i) {
    good([&](auto* error) { return hbmwire_settings_get(settings.get(), i, &one, error); });
    choices[one.name] = one.choices;
  }
  EXPECT_EQ(choices["HBMWIRE_GAUDI_DMABUF"], "yes|no|try");
  refused(HBMWIRE_INVALID_ARGUMENT,
          [&](auto* error) { return hbmwire_settings_get(settings.get(), 1000, &one, error); });
}

TEST(CHostPort, IsSplitAndJoined) {
  char host[64];
  std::uint16_t port = 0;
  good([&](auto* error) {
    return hbmwire_split_host_port("tcp://[::1]:7000/", HBMWIRE_UNSET, host, sizeof host, &port,
                                   error);
  });
  EXPECT_STREQ(host, "::1");
  EXPECT_EQ(port, 7000);
  good([&](auto* error) {
    return hbmwire_split_host_port("node2", 80, host, sizeof host, &port, error);
  });
  EXPECT_EQ(port, 80);
  char text[64];
  EXPECT_EQ(hbmwire_join_host_port("::1", 7000, text, sizeof text), 10U);
  EXPECT_STREQ(text, "[::1]:7000");
  for (const std::int32_t otherwise : {HBMWIRE_UNSET + 0, 65536, -2}) {
    refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
      return hbmwire_split_host_port("node2", otherwise, host, sizeof host, &port, error);
    });
  }
  // The host's buffer has no room for the terminating 0.
  refused(HBMWIRE_INVALID_ARGUMENT, [&](auto* error) {
    return hbmwire_split_host_port("node2:1", HBMWIRE_UNSET, host, 5, &port, error);
  });
}

}  // namespace
}  // namespace hbmwire::c_test
