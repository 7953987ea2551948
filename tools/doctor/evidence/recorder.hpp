// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// Passes questions on to another Evidence, and keeps them with their answers. A repeated question
/// gets the first answer again, as it will from the archive.
class Recorder final : public Evidence {
 public:
  /// `machine` must outlive this object.
  explicit Recorder(Evidence& machine);

  Answer file(const std::string& path) override;
  Names folder(const std::string& path) override;
  Answer link(const std::string& path) override;
  Answer real_path(const std::string& path) override;
  Answer access(const std::string& path) override;
  Json call(const std::string& name) override;

  /// All questions and their answers, with addresses and names in them. See scrubbed() in
  /// scrub.hpp.
  [[nodiscard]] const Record& record() const noexcept { return record_; }

 private:
  Evidence& machine_;
  Record record_;
};

}  // namespace hbmwire::tools::doctor
