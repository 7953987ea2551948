// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// A machine as a record has it. A folder that the record does not list is made of the names that
/// its other paths imply, unless the record is partial. A call that it lacks is ENOSYS.
class Archive final : public Evidence {
 public:
  explicit Archive(Record record) : record_(std::move(record)) {}

  Answer file(const std::string& path) override;
  Names folder(const std::string& path) override;
  Answer link(const std::string& path) override;
  Answer real_path(const std::string& path) override;
  Answer access(const std::string& path) override;
  Json call(const std::string& name) override;

  [[nodiscard]] const Record& record() const noexcept { return record_; }

 private:
  [[nodiscard]] int unlisted() const noexcept;
  [[nodiscard]] Answer answer(const std::map<std::string, Answer>& answers,
                              const std::string& path) const;

  Record record_;
};

}  // namespace hbmwire::tools::doctor
