// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// A machine as a record describes it. If the record does not list a folder, its names are taken
/// from the record's other paths, unless the record is partial. A call that the record lacks gives
/// ENOSYS.
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
  [[nodiscard]] int unlisted() const noexcept;  // the errno of what the record does not have
  [[nodiscard]] Answer answer(const std::map<std::string, Answer>& answers,
                              const std::string& path) const;

  Record record_;
};

}  // namespace hbmwire::tools::doctor
