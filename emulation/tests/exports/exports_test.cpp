// SPDX-License-Identifier: MIT
//
// A program that was built with the vendor's headers links and runs: the exports of the emulated
// libraries, the names by which they are found, and programs that link to them.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace hbmwire::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), got);
  ::pclose(pipe);
  return text;
}

/// "name" or "name@@version" of each exported function, sorted. The emulation's own hooks are left
/// out.
std::vector<std::string> exports_of(const fs::path& library) {
  std::istringstream lines(
      output_of("nm -D --defined-only --with-symbol-versions '" + library.string() + "'"));
  std::vector<std::string> names;
  for (std::string address, type, name; lines >> address >> type >> name;) {
    const bool is_version = type == "A";  // an absolute symbol that defines a version
    if (!is_version && !name.starts_with("hbmwire_")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream text(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The names of `all` that are not in `others`. Both are sorted.
std::vector<std::string> difference(const std::vector<std::string>& all,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> rest;
  std::ranges::set_difference(all, others, std::back_inserter(rest));
  return rest;
}

struct Library {
  const char* file;
  const char* list;      ///< the file of the names that the vendor's headers declare
  std::size_t at_least;  ///< a lower bound of the number of names in that file
};

void PrintTo(const Library& library, std::ostream* out) { *out << library.file; }

class Exports : public ::testing::TestWithParam<Library> {
 protected:
  const fs::path library_ = fs::path(HBMWIRE_EMULATED_LIBRARIES) / GetParam().file;
  const fs::path list_ = fs::path(HBMWIRE_EMULATION_SOURCE) / GetParam().list;
};

TEST_P(Exports, ExportedNamesAreThoseOfTheVendorsHeaders) {
  const auto wanted = lines_of(list_);
  EXPECT_GE(wanted.size(), GetParam().at_least);
  EXPECT_TRUE(std::ranges::is_sorted(wanted));
  EXPECT_EQ(std::ranges::adjacent_find(wanted), wanted.end());
  const auto found = exports_of(library_);
  EXPECT_THAT(difference(wanted, found), IsEmpty()) << "missing in " << library_;
  EXPECT_THAT(difference(found, wanted), IsEmpty()) << "missing in " << list_;
}

INSTANTIATE_TEST_SUITE_P(
    All, Exports,
    ::testing::Values(Library{"libhl-thunk.so", "gaudi/exports/libhl-thunk.txt", 150},
                      Library{"libSynapse.so", "gaudi/exports/libSynapse.txt", 145},
                      Library{"libcuda.so.1", "cuda/exports/libcuda.txt", 600},
                      Library{"libhsa-runtime64.so.1", "rocm/exports/libhsa-runtime64.txt", 250},
                      Library{"libamdhip64.so.7", "rocm/exports/libamdhip64.txt", 500}),
    [](const auto& name) {
      std::string text = name.param.file;
      std::erase_if(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return text;
    });

TEST(Libraries, HaveTheNamesThatTheVendorsInstall) {
  for (const char* name :
       {"libcuda.so", "libcuda.so.1", "libhl-thunk.so", "libSynapse.so", "libhsa-runtime64.so",
        "libhsa-runtime64.so.1", "libamdhip64.so", "libamdhip64.so.7"}) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    // dlopen() alone could have found a vendor's library.
    const fs::path file = fs::path(HBMWIRE_EMULATED_LIBRARIES) / name;
    EXPECT_TRUE(fs::exists(file)) << file;
    ::dlclose(library);
  }
  const fs::path directory(HBMWIRE_EMULATED_LIBRARIES);
  EXPECT_TRUE(fs::equivalent(directory / "libcuda.so", directory / "libcuda.so.1"));
}

// Without STATIC_TLS, a function call finds a thread's variables, in memory that is allocated when
// the thread first uses them. If that memory begins 16 bytes into a page, the LeakSanitizer of GCC
// 12 mistakes its neighbour for a header and crashes at exit.
TEST(Libraries, FindThreadLocalVariablesWithoutACall) {
  for (const char* name : {"libcuda.so.1", "libhl-thunk.so", "libSynapse.so",
                           "libhsa-runtime64.so.1", "libamdhip64.so.7", "libhbmwire_nic.so"}) {
    const fs::path file = fs::path(HBMWIRE_EMULATED_LIBRARIES) / name;
    EXPECT_THAT(output_of("readelf --dynamic '" + file.string() + "'"), HasSubstr("STATIC_TLS"))
        << file;
  }
}

// The programs linked_*.cpp have their own declarations and are linked by -lhl-thunk, -lcuda, ...
// 801 is CUDA_ERROR_NOT_SUPPORTED and hipErrorNotSupported, -95 -EOPNOTSUPP; 47 is
// HSA_STATUS_ERROR_NOT_SUPPORTED.
TEST(LinkedPrograms, RunAndGetErrorsForUnsupportedCalls) {
  EXPECT_EQ(output_of(HBMWIRE_LINKED_GAUDI), "count 1, idle 1, bytes 102273908736, power -95\n");
  EXPECT_EQ(output_of(HBMWIRE_LINKED_CUDA), "driver 12080, capability 9.0, module 801\n");
  EXPECT_EQ(output_of(HBMWIRE_LINKED_HIP),
            "AMD Instinct MI300X (emulated), large BAR 1, module 801\n");
  EXPECT_EQ(output_of(HBMWIRE_LINKED_HSA), "signal 3, queue 47\n");
}

TEST(NotModelledFunctions, AreNamedOnceOnStderr) {
  const std::string loud = output_of("env -u HBMWIRE_EMULATION_QUIET " HBMWIRE_LINKED_CUDA " 2>&1");
  const std::string line =
      "emulated: cuModuleLoad of libcuda.so.1 returned CUDA_ERROR_NOT_SUPPORTED, since the "
      "emulation does not model it; hbmwire emulate --quiet hides this line\n";
  EXPECT_THAT(loud, HasSubstr(line));
  EXPECT_THAT(loud.substr(loud.find(line) + 1), Not(HasSubstr(line)))
      << "the program calls it twice";
  const std::string quiet = output_of("HBMWIRE_EMULATION_QUIET=1 " HBMWIRE_LINKED_CUDA " 2>&1");
  EXPECT_THAT(quiet, Not(HasSubstr("emulated:")));
}

}  // namespace
}  // namespace hbmwire::test
