// SPDX-License-Identifier: MIT
#include "tools/perf/all/matrix_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "tools/common/output.hpp"
#include "tools/perf/all/doctor_facts.hpp"
#include "tools/perf/all/outliers.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using namespace std::chrono_literals;

// Doctor reads files of the whole machine, and many ranks may share it.
constexpr auto kDoctorPatience = 60s;

/// The bytes that a source sends in a step: no two sources send the same, and no two steps.
Pattern pattern_of(std::size_t source, std::uint32_t step) {
  return {.seed = static_cast<std::uint32_t>(source), .iteration = step, .tag = Tag::write};
}

/// Words for "... while {}" in the problem of a rank that ended.
std::string_view activity_of(Phase phase) {
  switch (phase) {
    case Phase::pairs:
      return "pairs were measured";
    case Phase::all_at_once:
      return "all ranks wrote at once";
    case Phase::many_to_one:
      return "many ranks wrote to one";
  }
  return {};
}

}  // namespace

MatrixRunner::MatrixRunner(Group& group, const MatrixOptions& options, int cancel_fd,
                           OnStep on_step)
    : group_(group), options_(options), cancel_fd_(cancel_fd), on_step_(std::move(on_step)) {}

Outcome<MatrixRun> MatrixRunner::run() {
  run_.ranks = group_.size();
  run_.launcher = group_.launcher();
  run_.emulated = is_emulated();
  HBMWIRE_TRY(take_stock());
  steps_ = make_plan(run_);
  HBMWIRE_TRY(open_ends());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    on_step_(i, steps_.size(), steps_[i].phase);
    doing_ = activity_of(steps_[i].phase);
    HBMWIRE_TRY(measure(steps_[i], static_cast<std::uint32_t>(i)));
  }
  finish_cells();
  doing_ = "reasons were looked for";
  HBMWIRE_TRY(find_reasons());
  return run_;
}

Wait MatrixRunner::wait() const { return {Deadline::after(options_.patience), cancel_fd_}; }

// --- telling each other

Outcome<MatrixRunner::Told> MatrixRunner::exchange(const Bytes& mine,
                                                   std::chrono::nanoseconds patience) {
  auto answers = group_.exchange_among_present(mine, Wait{Deadline::after(patience), cancel_fd_});
  if (!answers && answers.error().hint == Hint::group_rank_gone) {
    return tl::make_unexpected(
        Failure(answers.error(), "look at the output of that rank, and start the run again"));
  }
  HBMWIRE_TRY_ASSIGN(Told told, std::move(answers));
  for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
    if (!told[rank])
      note_broken(rank, fmt::format("it ended, or did not answer in time, while {}", doing_));
  }
  return told;
}

void MatrixRunner::note_broken(std::uint32_t rank, const std::string& problem) {
  if (is_broken(rank)) return;
  run_.broken.push_back({rank, group_.members()[rank].host, problem});
}

bool MatrixRunner::is_broken(std::uint32_t rank) const {
  return std::ranges::find(run_.broken, rank, &BrokenRank::rank) != run_.broken.end();
}

// --- what there is

Outcome<void> MatrixRunner::take_stock() {
  auto ends = find_ends(options_.selection);
  Inventory mine;
  if (ends) {
    found_ = std::move(*ends);
    for (FoundEnd& found : found_) {
      found.end.host = group_.members()[group_.rank()].host;
      mine.ends.push_back(found.end);
    }
  } else {
    mine.problem = ends.error().text;
  }
  mine.parameters = {.message_bytes = options_.message_bytes,
                     .time_ms = static_cast<std::uint64_t>(options_.time.count()),
                     .verify = options_.verify};
  HBMWIRE_TRY_ASSIGN(const Told told, exchange(encode(mine), 2 * options_.patience));
  for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
    if (!told[rank]) continue;
    auto inventory = decode_inventory(*told[rank]);
    if (!inventory) {
      note_broken(rank, "it speaks another version of this program");
      continue;
    }
    if (rank == 0) HBMWIRE_TRY(agree(inventory->parameters));
    if (!inventory->problem.empty()) note_broken(rank, inventory->problem);
    if (rank == group_.rank()) first_ = run_.ends.size();
    for (End& end : inventory->ends) {
      end.rank = rank;
      run_.ends.push_back(std::move(end));
    }
  }
  // Returned only now: the other ranks waited for this one's words.
  if (!ends) return tl::make_unexpected(ends.error());
  return {};
}

Outcome<void> MatrixRunner::agree(const MatrixParameters& rank_0) {
  if (rank_0.message_bytes == 0 || rank_0.message_bytes > kMostMessageBytes || rank_0.time_ms == 0)
    return fail("configure: rank 0 speaks another version of this program");
  options_.message_bytes = rank_0.message_bytes;
  options_.time = std::chrono::milliseconds(rank_0.time_ms);
  options_.verify = rank_0.verify;
  run_.message_bytes = options_.message_bytes;
  run_.seconds_per_cell = static_cast<double>(rank_0.time_ms) / 1e3;
  run_.verified = options_.verify;
  return {};
}

Outcome<void> MatrixRunner::open_ends() {
  std::vector<OpenedEnd> mine;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    OpenedEnd& opened = mine.emplace_back();
    auto end = LocalEnd::open(found_[i], {.message_bytes = options_.message_bytes,
                                          .slots = slots_of(run_, steps_, first_ + i)});
    if (end) {
      opened.path = (*end)->path();
      if (auto remote = (*end)->remote()) {
        opened.remote = std::move(*remote);
      } else {
        opened.problem = remote.error().text;
      }
    } else {
      opened.problem = end.error().text;
    }
    local_.push_back(end ? std::move(*end) : nullptr);
  }
  doing_ = "the NICs were opened";
  // Opening a card can take seconds.
  HBMWIRE_TRY_ASSIGN(const Told told, exchange(encode(mine), 4 * options_.patience));
  for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
    auto theirs = told[rank] ? decode_opened(*told[rank]) : std::nullopt;
    const std::span<End> ends = ends_of(rank);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      OpenedEnd& opened = opened_.emplace_back();
      if (theirs && i < theirs->size()) {
        opened = std::move((*theirs)[i]);
        ends[i].path = opened.path;
      } else {
        opened.problem = "its rank told nothing of it";
      }
    }
  }
  return {};
}

// --- measuring

/// A rank's ends lie beside each other.
std::span<End> MatrixRunner::ends_of(std::uint32_t rank) {
  const auto ends = std::ranges::equal_range(run_.ends, rank, {}, &End::rank);
  return {ends.begin(), ends.end()};
}

LocalEnd* MatrixRunner::local(std::size_t end) const {
  return rank_of(end) == group_.rank() ? local_[end - first_].get() : nullptr;
}

/// All sources are connected before any of them puts, and all puts are over before any target
/// looks.
Outcome<void> MatrixRunner::measure(const PlanStep& step, std::uint32_t number) {
  const auto prepared = poison(step, number);
  auto refused = connect_sources(step, number);
  // An empty report serves as a barrier, in which a rank that failed takes part, too.
  HBMWIRE_TRY(exchange(encode(std::vector<CellReport>()), 3 * options_.patience));
  HBMWIRE_TRY(prepared);
  const auto results = put(step, std::move(refused));
  HBMWIRE_TRY_ASSIGN(Told told, exchange(encode(results), options_.time + 2 * options_.patience));
  take_results(step.phase, told);
  if (!options_.verify) return {};
  HBMWIRE_TRY_ASSIGN(told, exchange(encode(verify(step, number)), 2 * options_.patience));
  take_verdicts(step.phase, told);
  return {};
}

Outcome<void> MatrixRunner::poison(const PlanStep& step, std::uint32_t number) {
  if (!options_.verify) return {};
  for (const std::size_t index : step.cells) {
    const Cell& cell = cells_of(run_, step.phase)[index];
    if (LocalEnd* const end = local(cell.target))
      HBMWIRE_TRY(
          end->poison_slot(slot_of(run_, step, index), pattern_of(cell.source, number), wait()));
  }
  return {};
}

/// Connects the source of each cell that this rank writes, and fills it. Returns reports on the
/// cells that can't be measured.
std::vector<CellReport> MatrixRunner::connect_sources(const PlanStep& step, std::uint32_t number) {
  std::vector<CellReport> refused;
  for (const std::size_t index : step.cells) {
    const Cell& cell = cells_of(run_, step.phase)[index];
    if (rank_of(cell.source) != group_.rank() || is_broken(rank_of(cell.target))) continue;
    const auto refuse = [&](CellState state, const std::string& problem) {
      refused.push_back({.cell = index, .state = state, .problem = problem});
    };
    LocalEnd* const source = local(cell.source);
    if (source == nullptr) {
      refuse(CellState::unreachable, opened_[cell.source].problem);
    } else if (!opened_[cell.target].problem.empty()) {
      refuse(CellState::unreachable, opened_[cell.target].problem);
    } else if (const Cell& pair = pair_cell(run_, cell.source, cell.target);
               pair.state == CellState::unreachable) {
      // Another attempt would hold up all ranks.
      refuse(CellState::unreachable, pair.problem);
    } else if (const auto connected =
                   source->connect(cell.target, opened_[cell.target].remote, wait());
               !connected) {
      refuse(CellState::unreachable, connected.error().text);
    } else if (const auto filled = source->fill_source(pattern_of(cell.source, number), wait());
               !filled) {
      refuse(CellState::broken, filled.error().text);
    }
  }
  return refused;
}

/// Measures all cells that this rank writes at the same time, each in a thread: an end waits only
/// for its own puts. Returns `refused`, and a report on each measured cell.
std::vector<CellReport> MatrixRunner::put(const PlanStep& step, std::vector<CellReport> refused) {
  std::vector<std::pair<std::size_t, std::future<Outcome<Moved>>>> running;
  for (const std::size_t index : step.cells) {
    const Cell& cell = cells_of(run_, step.phase)[index];
    LocalEnd* const source = local(cell.source);
    if (source == nullptr || is_broken(rank_of(cell.target)) ||
        std::ranges::find(refused, index, &CellReport::cell) != refused.end())
      continue;
    running.emplace_back(index, std::async(std::launch::async, [=, this] {
                           return source->put_for(cell.target, slot_of(run_, step, index),
                                                  options_.time, options_.patience, cancel_fd_);
                         }));
  }
  std::vector<CellReport> reports = std::move(refused);
  for (auto& [index, future] : running) {
    const auto moved = future.get();
    if (moved) {
      reports.push_back({.cell = index,
                         .state = CellState::measured,
                         .bytes_per_second = static_cast<double>(moved->bytes) / moved->seconds,
                         .path = moved->path});
    } else {
      reports.push_back({.cell = index, .state = CellState::broken, .problem = moved.error().text});
    }
  }
  return reports;
}

/// Compares the bytes that arrived at this rank's ends.
std::vector<CellReport> MatrixRunner::verify(const PlanStep& step, std::uint32_t number) {
  std::vector<CellReport> verdicts;
  for (const std::size_t index : step.cells) {
    const Cell& cell = cells_of(run_, step.phase)[index];
    LocalEnd* const target = local(cell.target);
    if (target == nullptr || cell.state != CellState::measured) continue;
    const auto found =
        target->compare_slot(slot_of(run_, step, index), pattern_of(cell.source, number), wait());
    if (!found) {
      verdicts.push_back(
          {.cell = index, .state = CellState::broken, .problem = found.error().text});
    } else if (found->wrong_bytes != 0) {
      verdicts.push_back(
          {.cell = index,
           .state = CellState::corrupt,
           .problem = fmt::format("verify: {} of {} bytes differ, the first at {}",
                                  found->wrong_bytes, found->bytes, found->offset_bytes)});
    } else {
      verdicts.push_back(
          {.cell = index, .state = CellState::measured, .verified_bytes = found->bytes});
    }
  }
  return verdicts;
}

namespace {

/// Calls `take` with each report of a rank about a cell whose `own` end (source or target) belongs
/// to that rank. Reports about other cells are ignored.
template <class Take>
void take_reports(MatrixRun& run, Phase phase, std::span<const std::optional<Bytes>> told,
                  std::size_t Cell::*own, Take take) {
  auto& cells = cells_of(run, phase);
  for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
    const auto reports = told[rank] ? decode_reports(*told[rank]) : std::nullopt;
    if (!reports) continue;
    for (const CellReport& report : *reports) {
      if (report.cell < cells.size() && run.ends[cells[report.cell].*own].rank == rank)
        take(cells[report.cell], report);
    }
  }
}

}  // namespace

void MatrixRunner::take_results(Phase phase, const Told& told) {
  take_reports(run_, phase, told, &Cell::source, [](Cell& cell, const CellReport& report) {
    cell.state = report.state;
    cell.bytes_per_second = report.bytes_per_second;
    cell.path = report.path;
    cell.problem = report.problem;
  });
}

void MatrixRunner::take_verdicts(Phase phase, const Told& told) {
  take_reports(run_, phase, told, &Cell::target, [](Cell& cell, const CellReport& report) {
    cell.verified_bytes = report.verified_bytes;
    if (report.state == CellState::measured) return;
    cell.state = report.state;
    cell.problem = report.problem;
    cell.bytes_per_second = 0;
  });
}

/// Says why cells of ranks that have ended have no figure.
void MatrixRunner::finish_cells() {
  for (const Phase phase : kPhases) {
    for (Cell& cell : cells_of(run_, phase)) {
      if (cell.state != CellState::not_measured) continue;
      const std::uint32_t source = rank_of(cell.source);
      const std::uint32_t rank = is_broken(source) ? source : rank_of(cell.target);
      cell.problem = fmt::format("rank {} did not get so far", rank);
    }
  }
}

// --- reasons

/// Ranks that have an outlier ask doctor about it.
Outcome<void> MatrixRunner::find_reasons() {
  const Outliers outliers = outliers_of(run_);
  std::vector<std::size_t> asked;
  for (const SlowEnd& slow : outliers.ends) asked.push_back(slow.end);
  for (const SlowPair& slow : outliers.pairs) {
    asked.push_back(slow.cell.source);
    asked.push_back(slow.cell.target);
  }
  if (asked.empty()) return {};  // as all ranks do, since they have the same results
  Facts mine(found_.size());
  for (std::size_t i = 0; i < found_.size(); ++i) {
    if (std::ranges::find(asked, first_ + i) != asked.end())
      mine[i] = doctor_facts(found_[i].end.nic, found_[i].pci_address);
  }
  HBMWIRE_TRY_ASSIGN(const Told told, exchange(encode(mine), kDoctorPatience));
  for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
    auto facts = told[rank] ? decode_facts(*told[rank]) : std::nullopt;
    const std::span<End> ends = ends_of(rank);
    for (std::size_t i = 0; facts && i < std::min(ends.size(), facts->size()); ++i)
      ends[i].facts = std::move((*facts)[i]);
  }
  return {};
}

}  // namespace hbmwire::tools::perf::all
