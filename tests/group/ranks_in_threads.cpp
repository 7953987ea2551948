// SPDX-License-Identifier: MIT
#include "ranks_in_threads.hpp"

#include <cstdlib>
#include <cstring>

namespace hbmwire::test {

Place::Place() {
  std::string pattern = std::filesystem::temp_directory_path() / "hbmwire-group-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
}

Place::~Place() { std::filesystem::remove_all(folder_); }

Region Rank::memory(std::uint64_t size, std::uint8_t value) const {
  auto region =
      context.allocate_region(MemoryType::host, size, Access::local_write | Access::remote_write);
  EXPECT_TRUE(region) << describe(region.error());
  std::memset(region->host_bytes().data(), value, size);
  return *region;
}

Result<Rank> join(const GroupOptions& options, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(Group group, Group::create(worker, wait, options));
  return Rank{std::move(context), std::move(worker), std::move(group)};
}

GroupOptions options_of(const Place& place, std::uint32_t rank, std::uint32_t size) {
  GroupOptions options;
  options.meeting = place.meeting();
  options.rank = rank;
  options.size = size;
  options.address = "127.0.0.1";
  options.endpoint.pre_shared_key = bytes_of("a key that only this test has");
  return options;
}

void at_all_ranks(std::uint32_t size, const std::function<void(Rank&)>& work,
                  const std::function<void(GroupOptions&)>& change) {
  const Place place;
  std::vector<std::jthread> threads;
  for (std::uint32_t number = 0; number < size; ++number) {
    threads.emplace_back([&, number] {
      GroupOptions options = options_of(place, number, size);
      if (change) change(options);
      auto rank = join(options);
      EXPECT_TRUE(rank) << "rank " << number << ": " << describe(rank.error());
      if (rank) work(*rank);
    });
  }
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace hbmwire::test
