// SPDX-License-Identifier: MIT
#include "tools/client/file.hpp"

#include <algorithm>

#include "hbmwire/low_level/connection.hpp"

#include "tools/common/digest.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/stopwatch.hpp"

namespace hbmwire::tools {
namespace {

constexpr std::uint64_t kSlotsUnderWay = 2;

class FileSender {
 public:
  FileSender(Job& job, SourceFile& source)
      : job_(job),
        source_(source),
        chunk_(std::min<std::uint64_t>(Staging::kChunkBytes, job.side.layout.size_bytes)),
        progress_("sending", source.size_bytes(), job.output.shows_progress()) {}

  Outcome<void> run() {
    HBMWIRE_TRY(prepare());
    const Stopwatch total;
    for (std::uint64_t i = 0; i < pieces_.count(); ++i) HBMWIRE_TRY(send_piece(i));
    while (saved_ < pieces_.count()) HBMWIRE_TRY(await_oldest());
    HBMWIRE_TRY(source_.check_unchanged());
    return compare_digests(total);
  }

 private:
  Outcome<void> prepare() {
    const std::uint64_t slot_bytes = job_.side.layout.size_bytes;
    HBMWIRE_TRY(job_.session.trade_addresses(job_.side.nic, job_.side.buffer.region(), slot_bytes));
    HBMWIRE_TRY(job_.session.connect());
    HBMWIRE_TRY(job_.session.announce(Step::start));
    HBMWIRE_TRY(job_.session.expect_step(Step::start));
    pieces_ = {source_.size_bytes(), job_.session.pieces(slot_bytes).length(0)};
    return {};
  }

  Outcome<void> send_piece(std::uint64_t index) {
    if (index >= saved_ + kSlotsUnderWay) HBMWIRE_TRY(await_oldest());
    const std::uint64_t slot = job_.side.layout.slot(index);
    HBMWIRE_TRY(load(slot, pieces_.length(index)));
    if (in_flight_ == 0) flight_ = Stopwatch();
    ++in_flight_;
    HBMWIRE_TRY(job_.session.connection().post_write_immediate(
        index, job_.slice(slot, pieces_.length(index)), job_.session.remote(slot),
        static_cast<std::uint32_t>(index)));
    return note_landings();
  }

  Outcome<void> load(std::uint64_t slot, std::uint64_t bytes) {
    for (std::uint64_t at = 0; at < bytes;) {
      const std::span<std::byte> chunk(chunk_.data(),
                                       std::min<std::uint64_t>(bytes - at, chunk_.size()));
      HBMWIRE_TRY(load_chunk(slot + at, chunk));
      at += chunk.size();
      HBMWIRE_TRY(note_landings());
      HBMWIRE_TRY(job_.session.tick());
    }
    return {};
  }

  // Loads from the file into device memory. The time of the digest does not count as loading.
  Outcome<void> load_chunk(std::uint64_t offset, std::span<std::byte> chunk) {
    const Stopwatch loading;
    HBMWIRE_TRY(source_.read(chunk));
    HBMWIRE_TRY(job_.side.buffer.write(offset, chunk, job_.session.wait()));
    loading_ns_ += loading.nanoseconds();
    digest_.update(chunk);
    return {};
  }

  // Called often, because the time of a piece ends when its completion is seen.
  Outcome<void> note_landings() {
    while (in_flight_ > 0) {
      HBMWIRE_TRY_ASSIGN(const bool landed, job_.session.try_finish(Completion::Kind::write));
      if (!landed) return {};
      note_landing();
    }
    return {};
  }

  void note_landing() {
    ++landed_;
    if (--in_flight_ == 0) transfer_ns_ += flight_.nanoseconds();
  }

  // Waits for the oldest piece, until its write is complete and the server has emptied its slot.
  Outcome<void> await_oldest() {
    while (landed_ <= saved_) {
      HBMWIRE_TRY(job_.session.finish(Completion::Kind::write, 1));
      note_landing();
    }
    HBMWIRE_TRY_ASSIGN(const auto saved, job_.session.expect<wire::PieceSaved>());
    if (saved.index != saved_) {
      return fail(fmt::format(
          "connect: {}: the server saved piece {} where {} belongs: are both of one version?",
          job_.session.peer(), saved.index, saved_));
    }
    ++saved_;
    progress_.advance(std::min(saved_ * pieces_.piece_bytes, pieces_.bytes));
    return {};
  }

  Outcome<void> compare_digests(const Stopwatch& total) {
    const DigestValue digest = digest_.finish();
    HBMWIRE_TRY(job_.session.send(
        wire::FileDone{.digest = digest, .bytes = pieces_.bytes, .nanoseconds = loading_ns_}));
    HBMWIRE_TRY_ASSIGN(const auto done, job_.session.expect<wire::FileDone>());
    job_.report.file = FileReport{.name = source_.name(),
                                  .digest = digest_text(digest),
                                  .peer_digest = digest_text(done.digest),
                                  .bytes = pieces_.bytes,
                                  .pieces = landed_,
                                  .loading_ns = loading_ns_,
                                  .transfer_ns = transfer_ns_,
                                  .saving_ns = done.nanoseconds,
                                  .total_ns = total.nanoseconds()};
    HBMWIRE_TRY(job_.session.send(wire::Bye{}));
    HBMWIRE_TRY(job_.session.expect<wire::Bye>());
    return {};
  }

  Job& job_;
  SourceFile& source_;
  std::vector<std::byte> chunk_;
  Progress progress_;
  Digest digest_;
  Pieces pieces_;
  std::uint64_t in_flight_ = 0;  // posted, but completion not seen
  std::uint64_t landed_ = 0;     // completions seen
  std::uint64_t saved_ = 0;      // slots that the server has emptied
  std::uint64_t loading_ns_ = 0;
  std::uint64_t transfer_ns_ = 0;
  Stopwatch flight_;
};

}  // namespace

Outcome<void> send_file(Job& job, SourceFile& source) { return FileSender(job, source).run(); }

}  // namespace hbmwire::tools
