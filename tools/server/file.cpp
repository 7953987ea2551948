// SPDX-License-Identifier: MIT
#include "tools/server/file.hpp"

#include <algorithm>
#include <future>

#include "hbmwire/low_level/connection.hpp"

#include "tools/common/digest.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/saved_file.hpp"
#include "tools/common/stopwatch.hpp"

namespace hbmwire::tools {
namespace {

constexpr std::uint64_t kSlots = 2;

class FileReceiver {
 public:
  FileReceiver(Job& job, const wire::Hello& hello, SavedFile& file)
      : job_(job),
        hello_(hello),
        file_(file),
        chunk_(std::min<std::uint64_t>(Staging::kChunkBytes, job.side.layout.size_bytes)),
        progress_("receiving", hello.file_bytes, job.output.shows_progress()) {}

  Outcome<void> run() {
    HBMWIRE_TRY(prepare());
    const Stopwatch total;
    for (std::uint64_t i = 0; i < pieces_.count(); ++i) HBMWIRE_TRY(receive_piece(i));
    return finish(total);
  }

 private:
  Outcome<void> prepare() {
    const std::uint64_t slot_bytes = job_.side.layout.size_bytes;
    HBMWIRE_TRY(job_.session.trade_addresses(job_.side.nic, job_.side.buffer.region(), slot_bytes));
    pieces_ = {hello_.file_bytes, job_.session.pieces(slot_bytes).length(0)};
    for (std::uint64_t i = 0; i < kSlots; ++i) HBMWIRE_TRY(post_receive(i));
    HBMWIRE_TRY(job_.session.connect());
    HBMWIRE_TRY(job_.session.announce(Step::start));
    return job_.session.expect_step(Step::start);
  }

  // The receive is for the immediate value of a piece. The client chooses where the bytes go within
  // our buffer.
  Outcome<void> post_receive(std::uint64_t index) {
    HBMWIRE_TRY(job_.session.connection().post_receive(index, job_.slice(0, 0)));
    return {};
  }

  Outcome<void> receive_piece(std::uint64_t index) {
    HBMWIRE_TRY_ASSIGN(const Completion done, job_.session.arrival());
    const bool right = done.kind == Completion::Kind::receive_write_immediate &&
                       done.immediate == static_cast<std::uint32_t>(index) &&
                       done.length_bytes == pieces_.length(index);
    if (!right) {
      return fail(fmt::format(
          "complete: {}: piece {} came with immediate {} and {} bytes, expected {} bytes: "
          "are both of one version?",
          job_.session.peer(), index, done.immediate, done.length_bytes, pieces_.length(index)));
    }
    ++completions_;
    HBMWIRE_TRY(save(job_.side.layout.slot(index), pieces_.length(index)));
    HBMWIRE_TRY(post_receive(index));
    progress_.advance(pieces_.offset(index) + pieces_.length(index));
    return job_.session.send(wire::PieceSaved{index});
  }

  // Saves from device memory into the file.
  Outcome<void> save(std::uint64_t slot, std::uint64_t bytes) {
    for (std::uint64_t at = 0; at < bytes;) {
      const std::span<std::byte> chunk(chunk_.data(),
                                       std::min<std::uint64_t>(bytes - at, chunk_.size()));
      const Stopwatch saving;
      HBMWIRE_TRY(job_.side.buffer.read(slot + at, chunk, job_.session.wait()));
      HBMWIRE_TRY(file_.append(chunk));
      saving_ns_ += saving.nanoseconds();
      digest_.update(chunk);
      at += chunk.size();
      HBMWIRE_TRY(job_.session.tick());
    }
    return {};
  }

  Outcome<void> finish(const Stopwatch& total) {
    HBMWIRE_TRY_ASSIGN(const auto theirs, job_.session.expect<wire::FileDone>());
    if (theirs.bytes != pieces_.bytes) {
      return fail(fmt::format(
          "complete: {}: the client ends after {} bytes of {}: are both of one version?",
          job_.session.peer(), theirs.bytes, pieces_.bytes));
    }
    const DigestValue digest = digest_.finish();
    if (theirs.digest == digest) HBMWIRE_TRY(keep());
    job_.report.file = FileReport{.name = hello_.file_name,
                                  .digest = digest_text(digest),
                                  .peer_digest = digest_text(theirs.digest),
                                  .bytes = pieces_.bytes,
                                  .pieces = completions_,
                                  .loading_ns = theirs.nanoseconds,
                                  .transfer_ns = 0,
                                  .saving_ns = saving_ns_,
                                  .total_ns = total.nanoseconds()};
    HBMWIRE_TRY(job_.session.send(
        wire::FileDone{.digest = digest, .bytes = pieces_.bytes, .nanoseconds = saving_ns_}));
    HBMWIRE_TRY(job_.session.expect<wire::Bye>());
    return job_.session.send(wire::Bye{});
  }

  // A slow disk may take longer than the client's patience. The client gets signs of life
  // meanwhile.
  Outcome<void> keep() {
    const Stopwatch saving;
    auto synced = std::async(std::launch::async, [this] { return file_.sync(); });
    while (synced.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      HBMWIRE_TRY(job_.session.tick());
    }
    HBMWIRE_TRY(synced.get());
    HBMWIRE_TRY(file_.keep());
    saving_ns_ += saving.nanoseconds();
    return {};
  }

  Job& job_;
  const wire::Hello& hello_;
  SavedFile& file_;
  std::vector<std::byte> chunk_;
  Progress progress_;
  Digest digest_;
  Pieces pieces_;
  std::uint64_t completions_ = 0;
  std::uint64_t saving_ns_ = 0;
};

}  // namespace

Outcome<void> receive_file(Job& job, const wire::Hello& hello, const std::string& directory) {
  HBMWIRE_TRY_ASSIGN(auto file, SavedFile::create(directory, hello.file_name, hello.file_bytes));
  job.output.line("Receiving {} ({} bytes) into {}...", wire::printable(hello.file_name),
                  hello.file_bytes, directory);
  return FileReceiver(job, hello, file).run();
}

}  // namespace hbmwire::tools
