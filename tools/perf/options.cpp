// SPDX-License-Identifier: MIT
#include "tools/perf/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "hbmwire/settings.hpp"

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/nearest.hpp"
#include "tools/common/text.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools::perf {
namespace {

constexpr std::array kConnections{"RC", "UC", "UD"};
constexpr std::array kMtusBytes{256, 512, 1024, 2048, 4096};
constexpr std::array kAtomicTypes{"FETCH_AND_ADD", "CMP_AND_SWAP"};
constexpr std::array kRateUnits{"g", "M", "p"};
constexpr std::array kDmabufWords{"yes", "no", "try"};

constexpr std::uint64_t kLargestSweepBytes = std::uint64_t{1} << 23;  // as in perftest
constexpr std::uint64_t kBandwidthBytes = 65536;
constexpr std::uint64_t kLatencyBytes = 2;
constexpr std::uint32_t kInlineWrite = 220;  // as in perftest's latency tests
constexpr std::uint32_t kInlineSend = 236;
constexpr std::uint32_t kInlineDatagram = 188;
constexpr std::uint32_t kLargestInline = 65536;  // far more than any NIC supports

/// Options that a user may leave open, as written on the command line.
struct Words {
  std::string test;
  std::string ranks;
  std::string connection = "RC";
  std::string memory;
  std::string size;
  std::string atomic_type = "FETCH_AND_ADD";
  std::string rate_units = "g";
  double rate = 0;
  std::optional<std::uint64_t> iterations;
  std::optional<std::uint32_t> tx_depth;
  std::optional<std::uint32_t> inline_bytes;
  std::optional<std::uint32_t> nic_port;
  std::optional<std::string> cuda;
  std::optional<std::string> rocm;
  std::optional<std::string> gaudi;
  bool cuda_dmabuf = false;
  bool rocm_dmabuf = false;
  bool no_verify = false;
  bool unused = false;             // for options that are accepted and have no effect
  std::vector<std::string> given;  // options that were given and whose value does not show it
};

void add_connection(CLI::App& app, Options& options, Words& words) {
  app.add_option("-p,--port", options.port, "TCP port on which the two find each other")
      ->check(is_port())
      ->option_text("PORT [18515]");
  app.add_option("--bind,--bind_source_ip", options.bind, "Server: address to listen on")
      ->option_text("ADDRESS");
  app.add_option("--ranks", words.ranks,
                 "Without HOST: measure from rank A to rank B of the group that a launcher has "
                 "started (mpirun, srun, torchrun); the other ranks wait")
      ->option_text("A,B");
  app.add_option("-d,--ib-dev", options.side.nic, "RDMA device; the first that fits if not given")
      ->option_text("DEVICE");
  app.add_option_function<std::uint32_t>(
         "-i,--ib-port", [&words](const std::uint32_t& port) { words.nic_port = port; },
         "Port of the device")
      ->check(CLI::Range(1, 255))
      ->option_text("NUMBER [first active]");
  app.add_option_function<unsigned>(
         "-x,--gid-index", [&options](const unsigned& index) { options.side.gid_index = index; },
         "Index in the port's GID table")
      ->check(CLI::Range(0, 255))
      ->option_text("INDEX [the setting's, else the best]");
  app.add_option("-c,--connection", words.connection, "Type of the queue pairs")
      ->check(CLI::IsMember(kConnections, CLI::ignore_case))
      ->option_text(alternatives(kConnections, "RC"));
  app.add_option("-m,--mtu", options.request.mtu_bytes,
                 "Path MTU in bytes; never more than the ports'")
      ->check(CLI::IsMember(kMtusBytes))
      ->option_text(alternatives(kMtusBytes, "the setting's, else the ports'"));
  app.add_flag("-R,--rdma_cm", options.request.rdma_cm, "Connect the queue pairs by rdma_cm");
  app.add_option("-u,--qp-timeout", options.request.ack_timeout, "4.096 us * 2^N without an answer")
      ->check(CLI::Range(0, 31))
      ->option_text("N [the setting's, else 14]");
  app.add_option("--retry_count", options.request.retries, "Then so many retries")
      ->check(CLI::Range(0, 7))
      ->option_text("N [the setting's, else 7]");
  app.add_option("-S,--sl", options.request.service_level, "Service level")
      ->check(CLI::Range(0, 15))
      ->option_text("N [the setting's, else 0]");
  app.add_option("--tclass", options.request.traffic_class, "Traffic class")
      ->check(CLI::Range(0, 255))
      ->option_text("N [the setting's, else 0]");
  app.add_option_function<std::uint32_t>(
         "--timeout",
         [&options](const std::uint32_t& seconds) {
           options.patience = std::chrono::seconds(seconds);
         },
         "Give up a peer that says nothing for so long")
      ->check(CLI::Range(1, 86400))
      ->option_text("SECONDS [8]");
}

void add_load(CLI::App& app, Options& options, Words& words) {
  PerfRequest& request = options.request;
  app.add_option("-s,--size", words.size, "Bytes of a message; K, M, G are taken")
      ->option_text("BYTES [65536, of latency 2, of atomics 8]");
  app.add_flag("-a,--all", request.all_sizes, "All sizes from 2 bytes to 8 MiB, or to -s");
  app.add_option_function<std::uint64_t>(
         "-n,--iters", [&words](const std::uint64_t& count) { words.iterations = count; },
         "Messages of each queue pair")
      ->check(CLI::Range(std::uint64_t{1}, wire::kMaxPerfIterations))
      ->option_text("COUNT [5000 of write_bw and put_bw, else 1000]");
  app.add_option("-D,--duration", request.duration_s, "Measure so long, not so many")
      ->check(CLI::Range(1, 604800))
      ->option_text("SECONDS");
  app.add_option("-q,--qp", request.queue_pairs, "Queue pairs")
      ->check(CLI::Range(1U, wire::kMaxPerfQueuePairs))
      ->option_text("COUNT [1]");
  app.add_flag("-b,--bidirectional", request.bidirectional, "Both directions at once");
  app.add_option_function<std::uint32_t>(
         "-t,--tx-depth", [&words](const std::uint32_t& depth) { words.tx_depth = depth; },
         "Requests under way, of each queue pair")
      ->check(CLI::Range(1U, wire::kMaxPerfDepth))
      ->option_text("COUNT [128]");
  app.add_option("-r,--rx-depth", request.rx_depth, "Receives that wait, of each queue pair")
      ->check(CLI::Range(1U, wire::kMaxPerfDepth))
      ->option_text("COUNT [512]");
  app.add_option("-l,--post_list", request.post_list, "Requests handed over by one call")
      ->check(CLI::Range(1U, wire::kMaxPerfDepth))
      ->option_text("COUNT [1]");
  app.add_option("-Q,--cq-mod", request.cq_moderation, "One completion for so many requests")
      ->check(CLI::Range(1U, wire::kMaxPerfDepth))
      ->option_text("COUNT [100 up to 8192 bytes, else 1]");
  app.add_option_function<std::uint32_t>(
         "-I,--inline_size", [&words](const std::uint32_t& size) { words.inline_bytes = size; },
         "Messages up to this size go with their requests; of host memory only")
      ->check(CLI::Range(0U, kLargestInline))
      ->option_text("BYTES [0, of latency as perftest]");
  app.add_option("-o,--outs", request.reads_out, "Reads and atomics under way, of each queue pair")
      ->check(CLI::Range(1, 255))
      ->option_text("COUNT [what both NICs can]");
  app.add_option("-A,--atomic_type", words.atomic_type, "Which atomic operation")
      ->check(CLI::IsMember(kAtomicTypes))
      ->option_text(alternatives(kAtomicTypes, "FETCH_AND_ADD"));
  app.add_flag("-e,--events", request.events, "Sleep until there are completions");
  app.add_option("--flows", request.flows,
                 "Regions that a queue pair's messages go through in turn")
      ->check(CLI::Range(1U, wire::kMaxPerfFlows))
      ->option_text("COUNT [1]");
  app.add_option("--rate_limit", words.rate, "No faster than this")
      ->check(CLI::PositiveNumber)
      ->option_text("RATE");
  app.add_option("--rate_units", words.rate_units, "g: Gbit/s, M: MiB/s, p: messages a second")
      ->check(CLI::IsMember(kRateUnits))
      ->option_text(alternatives(kRateUnits, "g"));
  app.add_option("--burst_size", request.burst, "Messages that may leave at once, below a rate")
      ->check(CLI::Range(1U, wire::kMaxPerfDepth))
      ->option_text("COUNT [1]");
  app.add_flag("--perform_warm_up", request.warm_up, "Some messages before each timed part");
  app.add_flag("--immediate", request.one_by_immediate,
               "write_lat: see messages by their completions, as with device memory");
  app.add_flag("--no-verify", words.no_verify, "Compare nothing; the output says so");
}

void add_memory(CLI::App& app, Options& options, Words& words) {
  app.add_option("--memory", words.memory,
                 "Where the buffers lie, with :DEVICE behind the type if wanted (an index or a PCI "
                 "address). A client's word is both sides', or A,B: its own, the server's")
      ->option_text(memory_types() + "[:DEVICE][,TYPE[:DEVICE]] [host]");
  app.add_flag(
      "--private", options.side.keeps_private,
      "put_*, get_*, tag_*: this side's host memory is such as other processes of its node "
      "do not map; the kernel copies it for them, where it lets them");
  app.add_option("--dmabuf", options.side.dmabuf,
                 "Whether device memory is registered through its dma-buf, on this side")
      ->check(CLI::IsMember(kDmabufWords))
      ->option_text(alternatives(kDmabufWords, "the settings'"));
  const auto alias = [&](const char* flag, std::optional<std::string>& device, const char* type) {
    app.add_option_function<std::string>(
           flag, [&device](const std::string& text) { device = text; },
           fmt::format("This side's memory is {}'s", type))
        ->option_text("DEVICE");
  };
  alias("--use_cuda,--use_cuda_bus_id", words.cuda, "cuda");
  alias("--use_rocm", words.rocm, "rocm");
  alias("--use_hl", words.gaudi, "gaudi");
  app.add_flag("--use_cuda_dmabuf", words.cuda_dmabuf, "--dmabuf yes, beside --use_cuda");
  app.add_flag("--use_rocm_dmabuf", words.rocm_dmabuf, "--dmabuf yes, beside --use_rocm");
}

void add_output(CLI::App& app, Options& options, Words& words) {
  app.add_flag("--report_gbits", options.gigabits, "Gb/s instead of MiB/s");
  app.add_flag("--json,--out_json", options.json, "One JSON object on standard output");
  app.add_option("--out_json_file", options.json_file, "The same into a file")->option_text("FILE");
  app.add_option("--plot", options.plot_file, "Draw the run, as SVG")->option_text("FILE");
  app.add_option("--compare", options.compare_file, "Set the run beside one that was saved")
      ->option_text("FILE");
  app.add_option("-w,--limit_bw", options.least_bandwidth, "Fail below this bandwidth")
      ->check(CLI::PositiveNumber)
      ->option_text("BANDWIDTH");
  app.add_option("-y,--limit_msgrate", options.least_message_rate,
                 "Fail below so many million messages a second")
      ->check(CLI::PositiveNumber)
      ->option_text("RATE");
  app.add_flag("--quiet", options.quiet, "Errors only");
  app.add_flag("-F,--CPU-freq", words.unused, "Taken, and without effect");
  app.add_flag("-N,--noPeak", words.unused, "Taken, and without effect: the peak costs nothing");
}

Outcome<void> wrong(const std::string& sentence) { return fail(sentence, kExitUsage); }

/// Reads --ranks: "0,5".
Outcome<void> set_ranks(const Words& words, Options& options) {
  if (words.ranks.empty()) return {};
  std::uint32_t client = 0;
  std::uint32_t server = 0;
  const char* const begin = words.ranks.data();
  const char* const end = begin + words.ranks.size();
  const auto first = std::from_chars(begin, end, client);
  const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = comma ? std::from_chars(first.ptr + 1, end, server) : first;
  if (!comma || second.ec != std::errc() || second.ptr != end || client == server) {
    return wrong(fmt::format("--ranks {}: give two ranks with a comma between them, as in 0,5",
                             words.ranks));
  }
  options.ranks = {client, server};
  return {};
}

Outcome<void> set_size(const Words& words, PerfRequest& request) {
  const TestKind& kind = kind_of(request.test);
  request.size_bytes = kind.measure == Measure::bandwidth ? kBandwidthBytes : kLatencyBytes;
  if (kind.verb == Verb::atomic) request.size_bytes = kAtomicBytes;
  // A datagram fits into one packet. Without -m the MTU is not known yet, and the engine refuses a
  // size that exceeds it. A single size is then at most 2048 bytes, which ports of MTU 2048 and
  // 4096 carry; a sweep goes up to the largest MTU that there is.
  if (request.connection == PerfConnection::ud)
    request.size_bytes = std::min<std::uint64_t>(request.size_bytes,
                                                 request.mtu_bytes != 0 ? request.mtu_bytes : 2048);
  if (request.all_sizes) {
    const std::uint32_t mtu = request.mtu_bytes != 0 ? request.mtu_bytes : 4096;
    request.size_bytes = request.connection == PerfConnection::ud ? mtu : kLargestSweepBytes;
  }
  if (words.size.empty()) return {};
  const auto size = parse_size(words.size);
  if (!size || *size > wire::kMaxPerfSizeBytes || (request.all_sizes && *size < 2)) {
    return wrong(
        fmt::format("-s {}: give a number of bytes from 1 (with -a from 2) to 1G", words.size));
  }
  request.size_bytes = *size;
  return {};
}

void set_iterations(const Words& words, PerfRequest& request) {
  constexpr std::uint64_t kUsual = 1000;
  constexpr std::uint64_t kMany = 5000;
  const bool many = request.test == PerfTest::write_bw || request.test == PerfTest::put_bw;
  request.iterations = words.iterations.value_or(many ? kMany : kUsual);
  if (request.duration_s != 0) request.iterations = 0;
}

void set_inline(const Words& words, PerfRequest& request) {
  const TestKind& kind = kind_of(request.test);
  std::uint32_t usual = 0;
  if (kind.measure == Measure::latency && kind.verb == Verb::write) usual = kInlineWrite;
  if (kind.measure == Measure::latency && kind.verb == Verb::send)
    usual = request.connection == PerfConnection::ud ? kInlineDatagram : kInlineSend;
  request.inline_bytes = words.inline_bytes.value_or(usual);
}

Outcome<void> set_rate(const Words& words, PerfRequest& request) {
  constexpr double kGigabitBytes = 1e9 / 8;
  constexpr double kMebibyte = 1 << 20;
  constexpr double kMost = 1e15;  // per second: more than any wire can carry, and far below 64 bits
  if (words.rate <= 0) return {};
  const bool messages = words.rate_units == "p";
  const double rate = words.rate * (messages                  ? 1
                                    : words.rate_units == "g" ? kGigabitBytes
                                                              : kMebibyte);
  if (!(rate >= 1 && rate <= kMost)) {
    return wrong(
        fmt::format("--rate_limit {:g} --rate_units {}: give a rate of 1 to 10^15 {} a second",
                    words.rate, words.rate_units, messages ? "messages" : "bytes"));
  }
  (messages ? request.messages_per_second : request.bytes_per_second) =
      static_cast<std::uint64_t>(rate);
  return {};
}

Outcome<MemoryChoice> choose(const std::string& text) {
  if (auto choice = parse_memory(text)) return *choice;
  return fail(fmt::format("--memory {}: give gaudi, cuda, rocm or host, with :DEVICE behind it if "
                          "wanted, and no more than two of them",
                          text),
              kExitUsage);
}

void use(const MemoryChoice& choice, Options& options) {
  options.side.memory = choice.type;
  options.side.device.device = choice.device;
  options.memory_given = true;
}

/// As in perftest, the option also requires a named device.
Outcome<void> set_dmabuf(const Words& words, Options& options) {
  const std::tuple<bool, const std::optional<std::string>*, const char*> flags[] = {
      {words.cuda_dmabuf, &words.cuda, "cuda"}, {words.rocm_dmabuf, &words.rocm, "rocm"}};
  for (const auto& [given, device, name] : flags) {
    if (!given) continue;
    if (!*device) {
      return wrong(fmt::format(
          "--use_{0}_dmabuf is about the memory of --use_{0} DEVICE; give that, too, or "
          "--memory and --dmabuf",
          name));
    }
    if (!options.side.dmabuf.empty() && options.side.dmabuf != "yes") {
      return wrong(
          fmt::format("--use_{}_dmabuf means --dmabuf yes, and --dmabuf {} is given; leave "
                      "one of them out",
                      name, options.side.dmabuf));
    }
    options.side.dmabuf = "yes";
  }
  // A server without its own choice uses the client's memory type.
  const bool is_known = options.memory_given || !options.host.empty();
  if (!options.side.dmabuf.empty() && is_known && options.side.memory == MemoryType::host) {
    return wrong(
        fmt::format("--dmabuf {}: host memory has no dma-buf; leave --dmabuf out, or name a "
                    "device's memory by --memory",
                    options.side.dmabuf));
  }
  return {};
}

Outcome<void> set_memory(const Words& words, Options& options) {
  const bool server = options.host.empty();
  if (!words.memory.empty()) {
    const std::size_t comma = words.memory.find(',');
    const std::string first = words.memory.substr(0, comma);
    const std::string second = comma == std::string::npos ? first : words.memory.substr(comma + 1);
    HBMWIRE_TRY_ASSIGN(const MemoryChoice here, choose(server ? second : first));
    HBMWIRE_TRY(choose(server ? first : second));
    use(here, options);
    if (!server) options.request.memory = second;
  }
  const std::pair<const std::optional<std::string>*, MemoryType> aliases[] = {
      {&words.cuda, MemoryType::cuda},
      {&words.rocm, MemoryType::rocm},
      {&words.gaudi, MemoryType::gaudi}};
  for (const auto& [device, type] : aliases) {
    if (!*device) continue;
    if (options.memory_given)
      return wrong("--memory, --use_cuda, --use_rocm and --use_hl exclude each other");
    use({type, **device}, options);
  }
  return set_dmabuf(words, options);
}

struct Combination {
  bool given;         // the option was given, together with something that makes it useless
  const char* which;  // the option's name
  const char* why;
};

/// Rejects options that would be ignored.
Outcome<void> check_given(const Words& words, const Options& options) {
  const PerfRequest& request = options.request;
  const TestKind& kind = kind_of(request.test);
  const bool latency = kind.measure == Measure::latency;
  const bool asks = kind.verb == Verb::read || kind.verb == Verb::atomic;
  const bool receives = kind.verb == Verb::send || kind.verb == Verb::tag;
  const auto has = [&](const char* name) {
    return std::ranges::find(words.given, name) != words.given.end();
  };
  const Combination combinations[] = {
      {words.iterations && request.duration_s != 0, "-n",
       "counts messages, and -D measures for a time"},
      {has("--rate_units") && words.rate <= 0, "--rate_units", "is the unit of --rate_limit"},
      {has("--burst_size") && words.rate <= 0, "--burst_size", "is about --rate_limit"},
      {has("-A") && kind.verb != Verb::atomic, "-A", "is about atomic_bw and atomic_lat"},
      {request.one_by_immediate && request.test != PerfTest::write_lat, "--immediate",
       "is about write_lat"},
      {has("-o") && !asks, "-o", "is about reads and atomics"},
      {has("-r") && !receives, "-r", "is about tests that receive, send and tag"},
      {has("-w") && latency, "-w", "is a bandwidth, which a latency test does not measure"},
      {has("-y") && latency, "-y", "is a rate of messages, which a latency test does not measure"},
      {!options.bind.empty() && !options.host.empty(), "--bind",
       "is a server's, and HOST makes a client of this"},
      {!options.plot_file.empty() && options.plot_file == options.json_file, "--plot",
       "and --out_json_file would write one file"},
      {options.side.keeps_private && is_verbs(request.test), "--private",
       "is about put_*, get_* and tag_*"},
      {options.json && options.quiet, "--quiet", "has no effect on --json, which prints no more"},
  };
  for (const auto& [given, which, why] : combinations) {
    if (given) return wrong(fmt::format("{} {}; leave one of them out", which, why));
  }
  const bool inlines = words.inline_bytes.value_or(0) != 0;
  if (inlines && options.side.memory != MemoryType::host)
    return wrong(fmt::format("-I needs host memory, and this side's is {}; leave -I out",
                             to_string(options.side.memory)));
  return {};
}

/// Completes the options from `words`, and checks them.
Outcome<void> settle(const Words& words, Options& options) {
  PerfRequest& request = options.request;
  const auto test = parse_test(words.test);
  if (!test) {
    const auto names = test_names();
    const auto meant = nearest(words.test, {names.begin(), names.end()});
    return wrong(fmt::format("there is no test \"{}\": there are {}{}", words.test,
                             fmt::join(names, ", "),
                             meant ? fmt::format("; did you mean {}?", *meant) : ""));
  }
  request.test = *test;
  const std::map<std::string_view, PerfConnection> connections{
      {"RC", PerfConnection::rc}, {"UC", PerfConnection::uc}, {"UD", PerfConnection::ud}};
  std::string connection = words.connection;
  std::ranges::transform(connection, connection.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  request.connection = connections.at(connection);  // one of kConnections, as CLI checked
  request.compare_swap = words.atomic_type == "CMP_AND_SWAP";
  request.verify = !words.no_verify;
  request.seed = std::random_device()();
  request.tx_depth = words.tx_depth.value_or(request.tx_depth);
  if (words.nic_port) {
    if (options.side.nic.empty()) return wrong("-i: name the device, too, by -d");
    options.side.nic += fmt::format(":{}", *words.nic_port);
  }
  HBMWIRE_TRY(set_ranks(words, options));
  HBMWIRE_TRY(set_size(words, request));
  set_iterations(words, request);
  set_inline(words, request);
  HBMWIRE_TRY(set_rate(words, request));
  HBMWIRE_TRY(set_memory(words, options));
  HBMWIRE_TRY(check_given(words, options));
  return check(request);
}

/// The settings supply options of the connection that the command line leaves open.
Outcome<void> add_settings(const CLI::App& app, Options& options) {
  HBMWIRE_TRY_ASSIGN(const Settings settings, settings_from_environment());
  const LinkOptions& link = settings.endpoint.link;
  const auto fill = [&app](const char* option, auto& value, const auto& setting) {
    if (setting && app.count(option) == 0) value = *setting;
  };
  fill("-m", options.request.mtu_bytes, link.mtu_bytes);
  fill("-u", options.request.ack_timeout, link.ack_timeout);
  fill("--retry_count", options.request.retries, link.retry_count);
  fill("-S", options.request.service_level, link.service_level);
  fill("--tclass", options.request.traffic_class, link.traffic_class);
  return {};
}

/// Splits a port behind HOST, or behind the address of --bind, off into `options.port`.
Outcome<void> split_off_port(const CLI::App& app, Options& options) {
  std::string& text = options.host.empty() ? options.bind : options.host;
  if (text.empty()) return {};
  HBMWIRE_TRY_ASSIGN(const HostPort at, place_of(text, options.port, *app.get_option("--port")));
  text = at.host;
  options.port = at.port;
  const bool no_port = options.port == 0 && !options.host.empty();
  return no_port ? wrong("-p 0: a client needs the server's port, which is 1 to 65535")
                 : Outcome<void>();
}

}  // namespace

std::optional<int> parse_options(const std::string& program, int argc, char** argv,
                                 Options& options) {
  Words words;
  CLI::App app(
      "Measures RDMA between two machines' memories, and verifies what arrives. Without a HOST it "
      "waits for a client, whose parameters then go for both; docs/perf.md tells of each option.",
      program);
  app.add_option("TEST", words.test, "The operation and the figure to measure")
      ->required()
      ->option_text(fmt::format("{}", fmt::join(test_names(), "|")));
  app.add_option("HOST", options.host, "Where the server runs, its port behind it if wanted")
      ->option_text(" ");
  add_connection(app, options, words);
  add_load(app, options, words);
  add_memory(app, options, words);
  add_output(app, options, words);
  if (const auto code = parse_command_line(app, program, argc, argv)) return code;
  Output output(program, options.output_mode());
  if (const auto split = split_off_port(app, options); !split)
    return usage_error(output, split.error().text);
  for (const char* const name : {"--rate_units", "--burst_size", "-A", "-o", "-r", "-w", "-y"}) {
    if (app.count(name) != 0) words.given.emplace_back(name);
  }
  // An invalid setting is no mistake of the command line, and its message has its own remedy.
  if (const auto filled = add_settings(app, options); !filled)
    return finish(output, filled.error(), Json::object());
  if (const auto finished = settle(words, options); !finished)
    return usage_error(output, finished.error().text);
  return std::nullopt;
}

}  // namespace hbmwire::tools::perf
