// SPDX-License-Identifier: MIT
#include "group/launch_environment.hpp"

#include <array>

#include "hbmwire/host_port.hpp"

#include "base/setting_numbers.hpp"
#include "group/slurm_nodes.hpp"

namespace hbmwire::detail {

namespace {

constexpr std::uint64_t kMaxRanks = 4096;  // GroupOptions::size

/// A launcher that tells each process its number in a variable.
struct RankVariables {
  const char* rank;
  const char* size;  // null: the launcher tells no size
  const char* launcher;
};

// An inner launcher comes before an outer one, because its processes inherit the outer one's
// variables: in a job of Slurm, mpirun leaves them the SLURM_PROCID of the batch script.
constexpr RankVariables kTorchrun{"RANK", "WORLD_SIZE", "torchrun's environment"};
constexpr RankVariables kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "Open MPI's environment"};
constexpr RankVariables kMpich{"PMI_RANK", "PMI_SIZE", "MPICH's environment"};
constexpr RankVariables kSlurm{"SLURM_PROCID", "SLURM_NTASKS", "Slurm's environment"};
constexpr RankVariables kKubernetes{"JOB_COMPLETION_INDEX", nullptr, "Kubernetes' environment"};
constexpr std::array kRankVariables{kTorchrun, kOpenMpi, kMpich, kSlurm, kKubernetes};

constexpr const char* kMissingCompanion =
    "this variable is not set, though others of the launcher are";

Error refuse_variable(std::string_view subject, const char* why) {
  return make_error(Errc::invalid_argument, Stage::configure, why, subject, Hint::group_launcher);
}

/// Collects the facts: for each, the first source that has it counts.
class FactFinder {
 public:
  FactFinder(const GroupOptions& options, const GroupSettings& settings, const Variables& variables)
      : variables_(variables),
        meeting_(options.meeting.empty() ? settings.meeting : options.meeting),
        is_without_pmix_(meeting_ == "env") {
    if (is_without_pmix_) meeting_.clear();
    take_size(options.size, "the program's options");
    take_size(settings.size, "HBMWIRE_GROUP_SIZE");
    take_rank(options.rank, "the program's options");
    take_rank(settings.rank, "HBMWIRE_GROUP_RANK");
  }

  Result<LaunchFacts> find(const AskPmix& ask_pmix) {
    HBMWIRE_TRY(look_at_pmix(ask_pmix));
    for (const RankVariables& each : kRankVariables) HBMWIRE_TRY(look_at_ranks(each));
    if (meeting_.empty()) HBMWIRE_TRY(look_at_master());
    if (meeting_.empty()) HBMWIRE_TRY(look_at_slurm());
    // The error of a library that is missing tells more than that nothing was found.
    if (meeting_.empty() && no_pmix_) return tl::make_unexpected(*no_pmix_);
    return LaunchFacts{.rank = rank_,
                       .size = size_,
                       .meeting = meeting_,
                       .launcher = rank_source_ != nullptr   ? rank_source_
                                   : size_source_ != nullptr ? size_source_
                                                             : "the program's options"};
  }

 private:
  /// Notes a rank that a source gives, unless an earlier source gave one; take_size() likewise.
  void take_rank(std::optional<std::uint32_t> rank, const char* source) noexcept {
    if (rank_ || !rank) return;
    rank_ = rank;
    rank_source_ = source;
  }

  void take_size(std::optional<std::uint32_t> size, const char* source) noexcept {
    if (size_ || !size) return;
    size_ = size;
    size_source_ = source;
  }

  /// The number in a variable; none: it is not set, or `name` is null.
  Result<std::optional<std::uint32_t>> number(const char* name, std::uint64_t least,
                                              std::uint64_t most, const char* why) const {
    const auto text = name != nullptr ? variables_(name) : std::nullopt;
    if (!text) return std::nullopt;
    std::uint64_t value = 0;
    if (!setting_numbers::parse_up_to(*text, most, value) || value < least)
      return tl::make_unexpected(refuse_variable(std::string(name) + "=" + *text, why));
    return static_cast<std::uint32_t>(value);
  }

  /// The text of a variable that has to be set.
  Result<std::string> companion(const char* name) const {
    auto text = variables_(name);
    if (!text) return tl::make_unexpected(refuse_variable(name, kMissingCompanion));
    return *std::move(text);
  }

  Result<void> look_at_pmix(const AskPmix& ask_pmix) {
    const bool meets_by_pmix = meeting_ == "pmix";
    const bool has_launcher = variables_("PMIX_RANK").has_value();
    if (meets_by_pmix && !has_launcher) {
      return tl::make_unexpected(make_error(Errc::not_found, Stage::configure,
                                            "no launcher with PMIx has started this process",
                                            "PMIX_RANK", Hint::group_launcher));
    }
    // If srun or mpirun has started torchrun, once on each machine, torchrun's processes inherit
    // PMIX_RANK, but PMIx does not know these processes.
    const bool is_inherited = variables_("TORCHELASTIC_RUN_ID").has_value() && !meets_by_pmix;
    const bool is_needed = !rank_ || !size_ || meeting_.empty() || meets_by_pmix;
    if (is_without_pmix_ || !has_launcher || is_inherited || !is_needed) return {};
    const auto job = ask_pmix();
    if (!job) {
      if (meets_by_pmix || job.error().code != Errc::not_found)
        return tl::make_unexpected(job.error());
      no_pmix_ = job.error();
      return {};
    }
    take_rank(job->rank, "PMIx");
    take_size(job->size, "PMIx");
    // PMIx finds rank 0 by its own numbers: they must be the group's, too.
    if (meeting_.empty() && rank_ == job->rank) meeting_ = "pmix";
    if (meets_by_pmix && rank_ != job->rank) {
      return tl::make_unexpected(refuse_variable(
          "rank " + std::to_string(*rank_), "where processes meet by PMIx, ranks are its own"));
    }
    return {};
  }

  Result<void> look_at_ranks(const RankVariables& each) {
    if (rank_ && size_) return {};
    HBMWIRE_TRY_ASSIGN(const auto rank, number(each.rank, 0, kMaxRanks - 1,
                                               "the variable is no number from 0 to 4095"));
    HBMWIRE_TRY_ASSIGN(const auto size,
                       number(each.size, 1, kMaxRanks, "the variable is no number from 1 to 4096"));
    // If rank or size is known already, the other variable need not be set.
    if (!rank_ && !size_ && each.size != nullptr && rank.has_value() != size.has_value()) {
      return tl::make_unexpected(refuse_variable(rank ? each.size : each.rank, kMissingCompanion));
    }
    take_rank(rank, each.launcher);
    take_size(size, each.launcher);
    return {};
  }

  Result<void> look_at_master() {
    const bool has_host = variables_("MASTER_ADDR").has_value();
    if (!has_host && !variables_("MASTER_PORT")) return {};
    HBMWIRE_TRY_ASSIGN(const std::string host, companion("MASTER_ADDR"));
    HBMWIRE_TRY(companion("MASTER_PORT"));
    // torch's own store has that port; the next one is the group's.
    HBMWIRE_TRY_ASSIGN(const auto port, number("MASTER_PORT", 1, 65534,
                                               "the variable is no number from 1 to 65534"));
    meeting_ = "tcp://" + join_host_port(host, static_cast<std::uint16_t>(*port + 1));
    return {};
  }

  Result<void> look_at_slurm() {
    // In the shell of salloc, the job's variables alone are set, which is enough.
    if (!variables_("SLURM_JOB_ID") && !variables_("SLURM_PROCID")) return {};
    HBMWIRE_TRY(companion("SLURM_JOB_ID"));
    // An mpirun within the job starts its processes in steps that differ by machine: then only the
    // job is the same for all of them.
    const bool is_task = rank_source_ == kSlurm.launcher || !rank_;
    const bool has_step = is_task && variables_("SLURM_STEP_NODELIST").has_value();
    const char* const list = has_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    HBMWIRE_TRY_ASSIGN(const std::string nodes, companion(list));
    // 1: only the first node is needed, on which the processes meet.
    HBMWIRE_TRY_ASSIGN(const auto names, slurm_nodes(nodes, 1, list));
    constexpr std::uint64_t kAny = std::uint32_t{0} - 1U;
    constexpr const char* kNoId = "the variable is no number of 32 bits";
    HBMWIRE_TRY_ASSIGN(const auto job, number("SLURM_JOB_ID", 0, kAny, kNoId));
    HBMWIRE_TRY_ASSIGN(const auto step,
                       number(is_task ? "SLURM_STEP_ID" : nullptr, 0, kAny, kNoId));
    // Jobs and steps that run on a machine at one time have close numbers: 997, a prime, keeps the
    // ports of a job's steps away from those of the next jobs.
    constexpr std::uint64_t kFirstPort = 20000;
    constexpr std::uint64_t kPorts = 10000;
    const std::uint64_t port = kFirstPort + (*job + std::uint64_t{997} * step.value_or(0)) % kPorts;
    meeting_ = "tcp://" + join_host_port(names.front(), static_cast<std::uint16_t>(port));
    return {};
  }

  const Variables& variables_;
  std::string meeting_;
  bool is_without_pmix_;  // "env": the launchers' variables alone count
  std::optional<std::uint32_t> rank_;
  std::optional<std::uint32_t> size_;
  const char* rank_source_ = nullptr;
  const char* size_source_ = nullptr;
  std::optional<Error> no_pmix_;
};

}  // namespace

Result<LaunchFacts> find_facts(const GroupOptions& options, const GroupSettings& settings,
                               const Variables& variables, const AskPmix& ask_pmix) {
  return FactFinder(options, settings, variables).find(ask_pmix);
}

}  // namespace hbmwire::detail
