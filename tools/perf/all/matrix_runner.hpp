// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/group.hpp"

#include "tools/perf/all/local_end.hpp"
#include "tools/perf/all/matrix.hpp"
#include "tools/perf/all/near_memory.hpp"
#include "tools/perf/all/plan.hpp"
#include "tools/perf/all/telling.hpp"

namespace hbmwire::tools::perf::all {

/// The longest message of a run: each NIC takes it in one request.
inline constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 30U;

/// How the cells are measured. Message, time and verification are rank 0's for all ranks.
struct MatrixOptions {
  Selection selection;
  std::uint64_t message_bytes = 1 << 20;
  std::chrono::milliseconds time{300};  ///< of one cell
  bool verify = true;
  std::chrono::seconds patience{8};  ///< with a rank or a connection that says nothing
};

/// Called before each step: how many are done, how many there are, and what comes.
using OnStep = std::function<void(std::size_t done, std::size_t steps, Phase phase)>;

/// One rank's part in a run. All ranks go through the steps of one plan together. A rank that ends
/// is noted, and the others go on without its cells.
class MatrixRunner {
 public:
  MatrixRunner(Group& group, const MatrixOptions& options, int cancel_fd, OnStep on_step);

  /// The whole run; every rank gets the same result. Errors: this rank has no hardware; rank 0 has
  /// ended; an interrupt.
  Outcome<MatrixRun> run();

 private:
  /// The words of each rank; none for ranks that have ended.
  using Told = std::vector<std::optional<Bytes>>;

  /// Tells `mine` to all ranks, and returns the words of all. Notes ranks that have ended as
  /// broken. `patience` must outlast the work that the other ranks do before this exchange: it is a
  /// multiple of options_.patience, which bounds each single wait of that work.
  Outcome<Told> exchange(const Bytes& mine, std::chrono::nanoseconds patience);
  /// Tells the ranks this one's hardware, and fills run_.ends with that of all.
  Outcome<void> take_stock();
  /// Adopts rank 0's parameters.
  Outcome<void> agree(const MatrixParameters& rank_0);
  /// Opens this rank's ends, and tells the ranks how to reach them.
  Outcome<void> open_ends();
  Outcome<void> measure(const PlanStep& step, std::uint32_t number);
  Outcome<void> find_reasons();
  void finish_cells();

  [[nodiscard]] std::vector<CellReport> connect_sources(const PlanStep& step, std::uint32_t number);
  [[nodiscard]] std::vector<CellReport> put(const PlanStep& step, std::vector<CellReport> refused);
  [[nodiscard]] std::vector<CellReport> verify(const PlanStep& step, std::uint32_t number);
  /// Poisons the slots of this rank's ends that the step writes.
  Outcome<void> poison(const PlanStep& step, std::uint32_t number);
  /// Store the reports of the sources, and those of the targets.
  void take_results(Phase phase, const Told& told);
  void take_verdicts(Phase phase, const Told& told);

  void note_broken(std::uint32_t rank, const std::string& problem);
  [[nodiscard]] bool is_broken(std::uint32_t rank) const;

  [[nodiscard]] std::uint32_t rank_of(std::size_t end) const { return run_.ends[end].rank; }

  [[nodiscard]] std::span<End> ends_of(std::uint32_t rank);
  /// Null if the end is another rank's, or could not be opened.
  [[nodiscard]] LocalEnd* local(std::size_t end) const;
  [[nodiscard]] Wait wait() const;

  Group& group_;
  MatrixOptions options_;
  int cancel_fd_;
  OnStep on_step_;
  MatrixRun run_;
  std::vector<PlanStep> steps_;
  std::vector<FoundEnd> found_;                      // this rank's
  std::size_t first_ = 0;                            // index of this rank's first end
  std::vector<std::unique_ptr<LocalEnd>> local_;     // null: it could not be opened
  std::vector<OpenedEnd> opened_;                    // of all ends
  std::string doing_ = "the ranks told their NICs";  // for "... while {}"
};

}  // namespace hbmwire::tools::perf::all
