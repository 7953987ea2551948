// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/fd.hpp"

#include "base/forks.hpp"
#include "group/meeting_name.hpp"
#include "group/meeting_place.hpp"

namespace hbmwire::detail {

/// A file that all processes see. The process with the meeting point holds a lock on it (fcntl(2),
/// F_OFD_SETLK), which the kernel releases however the process ends: the file of a process that was
/// killed counts for nothing, and the next one takes it over. It is removed with this object.
///
/// Byte 0 is locked by the process that has the meeting point, byte 1 once its addresses are there:
/// a reader takes no text that an earlier process has left, or that is half written.
class FilePlace final : public MeetingPlace {
 public:
  /// Errors: Errc::not_found, Stage::configure: the folder is not there.
  static Result<std::unique_ptr<MeetingPlace>> create(MeetingName meeting);

  explicit FilePlace(MeetingName meeting);
  FilePlace(const FilePlace&) = delete;
  FilePlace& operator=(const FilePlace&) = delete;
  ~FilePlace() override;

  [[nodiscard]] const std::string& name() const noexcept override { return meeting_.text; }

  Result<bool> claim(const Wait& wait) override;

  /// Claims the place first, if that was not done. Errors: Errc::busy: another process has it,
  /// and does not end within two seconds.
  Result<void> leave(const std::vector<std::string>& addresses, const Wait& wait) override;

  Result<std::vector<std::string>> look(const Wait& wait) override;

 private:
  /// Opens the path; no descriptor: there is no file, and `flags` lack O_CREAT. Errors: those of
  /// open(2); Errc::permission_denied: it is no regular file of this user or of root.
  Result<Fd> open_file(int flags) const;
  /// Whether the path still leads to this file.
  [[nodiscard]] Result<bool> is_at_path(const Fd& file) const;
  /// Errors: the file is neither empty nor left by a process of a group.
  Result<void> check_is_ours_to_write(const Fd& file) const;
  /// claim(), which is tried again for two seconds while another process has the place.
  Result<void> claim_or_refuse(const Wait& wait);
  [[nodiscard]] Error file_failed(const char* call, int number) const;

  MeetingName meeting_;
  MadeHere made_;
  Fd held_;  // with the lock; none: this process does not have the meeting point
};

}  // namespace hbmwire::detail
