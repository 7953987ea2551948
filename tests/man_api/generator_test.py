# SPDX-License-Identifier: MIT
"""Tests of docs/man/api with an invented header. usage: generator_test.py FOLDER_OF_THE_GENERATOR DOXYGEN"""
from __future__ import annotations

import pathlib
import sys
import tempfile
import unittest

FOLDER, DOXYGEN = sys.argv[1], sys.argv[2]
sys.path.insert(0, FOLDER)
import headers  # noqa: E402  (its folder is only known from the command line)
import pages  # noqa: E402
import roff  # noqa: E402

HEADER = """
#pragma once
#include <cstdint>

namespace hbmwire {

namespace detail {
/// Not for programs.
struct Secret {};
}  // namespace detail

/// Colours of a box. A bit set.
enum class Colour : std::uint8_t {
  red,   ///< like a rose; see poll(2)
  blue,
};

/// The word that users see.
[[nodiscard]] HBMWIRE_API const char* to_string(Colour colour) noexcept;

/// How a box is made.
struct BoxOptions {
  std::uint32_t depth_mm = 64;  ///< at most `kLargest`
  /// Not only its lid.
  Colour colour = Colour::red;
  char label[48] = {};
};

/// The greatest depth of a Box.
inline constexpr std::uint32_t kLargest = 512;

/// A box: it holds things. Move-only.
///
/// Boxes may be stacked.
class HBMWIRE_API Box {
 public:
  /// Makes a box. Errors: Errc::busy, -1 of them. Threads: any.
  static Box create(const BoxOptions& options = {}, std::uint64_t a_long_name = 0, std::uint64_t another = 0);

  Box(Box&&) noexcept;
  Box& operator=(Box&&) noexcept;
  Box(const Box&) = delete;
  ~Box();

  /// Whether it is closed, after close().
  explicit operator bool() const noexcept { return true; }

  /// Opens it, or closes it.
  void open(const int* hinge);
  void close() noexcept;

  /// The lid.
  template <class Lid>
  Lid&& lid(Lid&& now);

  int nothing_said() const;

  /// What may lie in it.
  struct Thing {
    int weight_g = 1;  ///< of one
  };

 private:
  /// Nobody's business.
  int hidden();
};

}  // namespace hbmwire

/// Gives a Box, or returns.
#define HBMWIRE_GIVE(box) (box)
"""


class Roff(unittest.TestCase):
    def test_names_are_set_in_bold_and_code_in_italics(self) -> None:
        self.assertEqual(roff.text("See poll(2), Box::open(), close() and `a-b`, of Errc::busy."),
                         r"See \fBpoll\fP(2), \fBBox::open\fP(), \fBclose\fP() and \fIa\-b\fP, of \fBErrc::busy\fP.")

    def test_each_sentence_begins_a_line_and_none_is_a_request(self) -> None:
        self.assertEqual(roff.text("One. Two.\n.so"), "One.\nTwo.\n\\&.so")

    def test_errors_and_threads_begin_paragraphs(self) -> None:
        self.assertEqual(roff.contract(["Does it. Errors besides: Errc::busy. Threads: any."]),
                         "Does it.\n.PP\n\\fIErrors besides:\\fP \\fBErrc::busy\\fP.\n.PP\n\\fIThreads:\\fP any.")

    def test_a_fragment_becomes_a_sentence(self) -> None:
        self.assertEqual([roff.sentence(one) for one in ("of one", "mlx5_0 alone", "Whole.")], ["Of one.", "mlx5_0 alone.", "Whole."])

    def test_a_declaration_is_broken_behind_commas(self) -> None:
        self.assertEqual(roff.fold("void open(const int& a, const int& b);", width=30),
                         ["void open(const int& a,", "    const int& b);"])

    def test_an_initialiser_is_broken_before_its_value(self) -> None:
        self.assertEqual(roff.fold("std::chrono::seconds timeout = std::chrono::seconds(30);", width=40),
                         ["std::chrono::seconds timeout =", "    std::chrono::seconds(30);"])

    def test_code_is_printed_as_it_is(self) -> None:
        self.assertEqual(roff.block([".a '~\"\\"]), ".nf\n\\&.a \\(aq\\(ti\\(dq\\e\n.fi")


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        include = pathlib.Path(cls.folder.name, "include")
        (include / "hbmwire").mkdir(parents=True)
        (include / "hbmwire/box.hpp").write_text(HEADER, encoding="utf-8")
        (include / "hbmwire/hbmwire.hpp").write_text('#include "hbmwire/box.hpp"\n', encoding="utf-8")
        cls.read = headers.Headers(include, headers.run_doxygen(DOXYGEN, include, "HBMWIRE_API"), "HBMWIRE_API")
        cls.pages = pages.make_pages(cls.read)
        cls.out = pathlib.Path(cls.folder.name, "man3")
        cls.out.mkdir()
        (cls.out / "hbmwire::Gone.3").write_text("an old page", encoding="utf-8")
        pages.write_all(cls.read, "1.2", "/doc", cls.out)
        cls.text = {path.name: path.read_text(encoding="utf-8") for path in cls.out.glob("*.3")}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_each_public_type_has_a_page_and_others_lead_there(self) -> None:
        self.assertEqual(sorted(self.pages), ["hbmwire::Box", "hbmwire::BoxOptions", "hbmwire::Colour"])
        self.assertEqual(sorted(self.text), ["HBMWIRE_GIVE.3", "hbmwire::Box.3", "hbmwire::Box::Thing.3", "hbmwire::BoxOptions.3",
                                             "hbmwire::Colour.3", "hbmwire::kLargest.3", "hbmwire::to_string.3", "libhbmwire.3"])
        self.assertEqual(self.text["hbmwire::Box::Thing.3"], ".so man3/hbmwire::Box.3\n")

    def test_the_synopsis_is_all_public_declarations(self) -> None:
        synopsis = self.text["hbmwire::Box.3"].partition(".SH SYNOPSIS\n")[2].partition("\n.SH ")[0]
        self.assertEqual(synopsis, """.nf
#include <hbmwire/box.hpp>  // or <hbmwire/hbmwire.hpp>

namespace hbmwire {

class Box {
 public:
  static Box create(const BoxOptions& options = {},
      std::uint64_t a_long_name = 0, std::uint64_t another = 0);
  explicit operator bool() const noexcept;
  void open(const int* hinge);
  void close() noexcept;
  template <class Lid>
  Lid&& lid(Lid&& now);
  int nothing_said() const;
  struct Thing {
    int weight_g = 1;
  };
};

constexpr std::uint32_t kLargest = 512;

}  // namespace hbmwire

#define HBMWIRE_GIVE(box)
.fi""")

    def test_functions_have_their_contracts_and_overloads_share_one(self) -> None:
        text = self.text["hbmwire::Box.3"]
        self.assertIn("void open(const int* hinge);\nvoid close() noexcept;\n.ft P\n.fi\n.RS 4\nOpens it, or closes it.\n.RE", text)
        self.assertIn("Makes a box.\n.PP\n\\fIErrors:\\fP \\fBErrc::busy\\fP, \\-1 of them.\n.PP\n\\fIThreads:\\fP any.\n.RE", text)
        for hidden in ("hidden", "Nobody", "Secret", "operator=", "~Box"):
            self.assertNotIn(hidden, "".join(self.text.values()))
        self.assertEqual(text.count("nothing_said"), 1)

    def test_a_class_has_its_brief_and_its_contract(self) -> None:
        text = self.text["hbmwire::Box.3"]
        self.assertIn("\n.SH NAME\nhbmwire::Box, HBMWIRE_GIVE, hbmwire::Box::Thing, hbmwire::kLargest \\- a box: it holds things\n", text)
        self.assertIn(".SH DESCRIPTION\nA box: it holds things.\nMove-only.\n.PP\nBoxes may be stacked.\n.SH TYPES\n", text)

    def test_members_have_their_defaults(self) -> None:
        text = self.text["hbmwire::BoxOptions.3"]
        self.assertIn("std::uint32_t depth_mm = 64;\n.ft P\n.fi\n.RS 4\nAt most \\fIkLargest\\fP.\n.RE", text)
        self.assertIn("  char label[48] = {};\n", text)

    def test_an_enum_has_its_values_and_its_functions(self) -> None:
        text = self.text["hbmwire::Colour.3"]
        self.assertIn("enum class Colour : std::uint8_t { red, blue };\n", text)
        self.assertIn(".SH VALUES\n.PP\n.nf\n.ft B\nred\n.ft P\n.fi\n.RS 4\nLike a rose; see \\fBpoll\\fP(2).\n.RE\n", text)
        self.assertIn("const char* to_string(Colour colour) noexcept;", text)

    def test_see_also_names_related_types(self) -> None:
        self.assertIn(".SH SEE ALSO\n.BR hbmwire::BoxOptions (3),\n.BR libhbmwire (3),\n", self.text["hbmwire::Box.3"])
        self.assertIn(".SH SEE ALSO\n.BR hbmwire::Box (3),\n.BR hbmwire::Colour (3),\n", self.text["hbmwire::BoxOptions.3"])

    def test_the_overview_lists_the_pages_of_each_header(self) -> None:
        self.assertIn(".SS <hbmwire/box.hpp>\n.TP\n.BR hbmwire::Box (3)\na box: it holds things\n", self.text["libhbmwire.3"])

    def test_pages_carry_the_version_and_no_date(self) -> None:
        for name, text in self.text.items():
            if not text.startswith(".so "):
                self.assertTrue(text.startswith(f'.TH "{name[:-2]}" 3 "" "hbmwire 1.2" "hbmwire library"\n'), name)

    def test_a_second_run_gives_the_same_pages(self) -> None:
        pages.write_all(self.read, "1.2", "/doc", self.out)
        self.assertEqual(self.text, {path.name: path.read_text(encoding="utf-8") for path in self.out.glob("*.3")})


if __name__ == "__main__":
    if not DOXYGEN or DOXYGEN.endswith("NOTFOUND"):
        print("Skipped\nno man pages of section 3: no doxygen")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
