// SPDX-License-Identifier: MIT
#include "tools/common/report.hpp"

#include <algorithm>

#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

void print_path(const LocalSide& side, const Report& report, Output& output) {
  const Region& region = side.buffer.region();
  const char* sign = report.verified() ? "✅" : "❌";
  if (region.path() == Path::zero_copy) {
    output.line("{} Zero-copy RDMA using {} DMA-buf", sign, side.brand());
    output.line("   - {} device memory: {:#x}", side.brand(), region.address());
    output.line("   - DMA-buf fd: {}", region.dmabuf_fd());
    output.line("   - Direct device-to-network transfers");
  } else if (region.path() == Path::peer_memory) {
    output.line("{} Zero-copy RDMA using {} peer memory", sign, side.brand());
    output.line("   - {} device memory: {:#x}", side.brand(), region.address());
  } else {
    output.line("{} RDMA using regular memory", sign);
    output.line("   - Host buffer: {:#x}", region.address());
  }
  output.line("   - Peer's memory: {}", wire::printable(report.peer_memory));
}

std::string compared_text(const OperationReport& operation) {
  return fmt::format("{} completions here, {} bytes compared, {} wrong", operation.completions,
                     operation.bytes, operation.wrong_bytes);
}

const char* mark(const OperationReport& operation) {
  return operation.verdicts != 0 && operation.wrong_bytes == 0 ? "✓" : "✗";
}

std::string title(const OperationReport& operation) {
  const bool good = operation.wrong_bytes == 0;
  if (operation.name == kSend) {
    return fmt::format("Send, client to server: {} iterations", operation.verdicts);
  }
  if (operation.name == kResponse) {
    return fmt::format("Response, server to client: {} iterations", operation.verdicts);
  }
  if (operation.name == kWrite) {
    return good ? "RDMA Write: Successfully pushed data to client"
                : "RDMA Write: Pushed WRONG data to client";
  }
  return good ? "RDMA Read: Successfully pulled data from server"
              : "RDMA Read: Pulled WRONG data from server";
}

void print_file(const FileReport& file, Output& output) {
  const bool same = file.digest == file.peer_digest;
  output.line("   {} File {}: {} bytes in {} pieces", same ? "✓" : "✗", wire::printable(file.name),
              file.bytes, file.pieces);
  output.line("     BLAKE2b here:  {}", file.digest);
  output.line("     BLAKE2b there: {}", same ? "the same" : file.peer_digest);
  output.line("     Loading {} (client), saving {} (server)",
              rate_text(file.bytes, file.loading_ns), rate_text(file.bytes, file.saving_ns));
  // Only the client knows how long writes were in flight.
  if (file.transfer_ns != 0) {
    output.line("     Transfer {}", rate_text(file.bytes, file.transfer_ns));
  }
  output.line("     All together {}", rate_text(file.bytes, file.total_ns));
}

Json to_json(const OperationReport& operation) {
  Json json{{"operation", operation.name},
            {"completions", operation.completions},
            {"iterations", operation.verdicts},
            {"bytes", operation.bytes},
            {"wrong_bytes", operation.wrong_bytes}};
  if (operation.first_wrong) {
    json["first_wrong"] = {{"iteration", operation.first_wrong->iteration},
                           {"offset", operation.first_wrong->offset_bytes},
                           {"expected", operation.first_wrong->expected},
                           {"got", operation.first_wrong->got}};
  }
  return json;
}

Json to_json(const FileReport& file) {
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"pieces", file.pieces},
          {"blake2b", file.digest},
          {"peer_blake2b", file.peer_digest},
          {"loading_ns", file.loading_ns},
          {"transfer_ns", file.transfer_ns},
          {"saving_ns", file.saving_ns},
          {"total_ns", file.total_ns}};
}

}  // namespace

OperationReport& Report::operation(const std::string& name) {
  const auto found = std::ranges::find(operations, name, &OperationReport::name);
  if (found != operations.end()) return *found;
  operations.emplace_back().name = name;
  return operations.back();
}

void Report::add(const wire::Verdict& verdict) {
  OperationReport& report = operation(verdict.operation);
  ++report.verdicts;
  report.bytes += verdict.bytes;
  report.wrong_bytes += verdict.wrong_bytes;
  if (verdict.wrong_bytes != 0 && !report.first_wrong) report.first_wrong = verdict;
}

bool Report::verified() const noexcept {
  if (file) return file->digest == file->peer_digest;
  const auto good = [](const OperationReport& operation) {
    return operation.verdicts != 0 && operation.wrong_bytes == 0;
  };
  return !operations.empty() && std::ranges::all_of(operations, good);
}

std::string Report::wrong_text() const {
  if (file && file->digest != file->peer_digest) {
    return fmt::format("verify: file {}: the digests differ, here {}, there {}",
                       wire::printable(file->name), file->digest, file->peer_digest);
  }
  for (const auto& operation : operations) {
    if (operation.first_wrong) return "verify: " + verdict_text(*operation.first_wrong);
  }
  return verified() ? "" : "verify: nothing was compared";
}

std::string verdict_text(const wire::Verdict& verdict) {
  return fmt::format(
      "{}, iteration {}, offset {}: expected {:#04x}, got {:#04x} ({} of {} bytes wrong)",
      wire::printable(verdict.operation), verdict.iteration, verdict.offset_bytes, verdict.expected,
      verdict.got, verdict.wrong_bytes, verdict.bytes);
}

Json to_json(const Report& report) {
  Json json{{"peer", report.peer},
            {"peer_memory", wire::printable(report.peer_memory)},
            {"verified", report.verified()},
            {"operations", Json::array()}};
  for (const auto& operation : report.operations) json["operations"].push_back(to_json(operation));
  if (report.file) json["file"] = to_json(*report.file);
  return json;
}

void print_summary(const Report& report, const LocalSide& side, Output& output) {
  output.line("=== Summary ===");
  print_path(side, report, output);
  output.line("📊 Operations Summary:");
  for (const auto& operation : report.operations) {
    output.line("   {} {} ({})", mark(operation), title(operation), compared_text(operation));
  }
  if (report.file) print_file(*report.file, output);
  if (!report.verified()) output.line("✗ {}", report.wrong_text());
}

}  // namespace hbmwire::tools
