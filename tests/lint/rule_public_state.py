# SPDX-License-Identifier: MIT
"""A public class holds only one pointer, so that its state can change without recompiling programs. Its only friend is
detail::Internals (src/base/internals.hpp), and no public function takes or returns a type of namespace detail."""
import re

from rule_class_size import classes, declarations, sorted_declarations, without_text

# These hold other members, for the reasons in ARCHITECTURE.md ("Public classes"): a value has no state behind it, and the data
# path may not follow a pointer or allocate.
VALUES = {"Deadline", "UniqueHandle", "RemoteRegion", "RegistrationLease"}
POINTER = re.compile(r"(?:const )?(?:std::(?:shared|unique|weak)_ptr<.*>|[\w:]+(?: const)? ?\*) ?\w+(?: = .*|{})?")
FRIEND = re.compile(r"\bfriend\b(?!\s+struct detail::Internals\s*$)")


def check(tree):
    for path in tree.cpp("include"):
        text = without_text("\n".join(line for _, line in tree.lines(path)))
        for name, line, body in classes(text):
            where = f"{path}:{line}: {name}"
            public, private, _ = body.partition(" private:")
            _, held = sorted_declarations(body)
            if private and name not in VALUES and not (len(held) == 1 and POINTER.fullmatch(held[0])):
                yield f"{where} holds {'; '.join(held) or 'nothing'}, not one pointer"
            if re.search(r"\bdetail::", public):
                yield f"{where} names a type of detail where programs see it"
            if any(FRIEND.match(one) for one in declarations(body)):
                yield f"{where} has another friend than detail::Internals"


GOOD = {
    "include/hbmwire/a.hpp": "class A {\n public:\n  int f() const;\n\n private:\n  friend struct detail::Internals;\n"
                             "  explicit A(std::shared_ptr<detail::State> state) noexcept;\n"
                             "  std::shared_ptr<detail::State> state_;\n};\nstruct Options {\n  int a = 0;\n  int b = 0;\n};\n"
                             "class R {\n private:\n  const detail::State* state_ = nullptr;\n};\n"
                             "class U {\n private:\n  std::unique_ptr<State, Free> state_;\n};\n"
                             "class Deadline {\n private:\n  Clock::time_point when_;\n};\n",
    "src/base/a.hpp": "class B {\n private:\n  int a_;\n  int b_;\n};\n",
}
STATE = "  std::shared_ptr<State> state_;\n};\n"
BAD = [{"include/hbmwire/b.hpp": "class B {\n public:\n  int f();\n\n private:\n" + held + "};\n"} for held in (
    "  std::shared_ptr<A> a_;\n  std::shared_ptr<B> b_;\n", "  A *a_, *b_;\n",
    "  int a_;\n", "  std::vector<int> a_;\n", "  std::vector<std::shared_ptr<A>> a_;\n", "  std::optional<A*> a_;\n", "  A& a_;\n",
    "")] + [
    {"include/hbmwire/b.hpp": "class B {\n public:\n  int a;\n\n private:\n" + STATE},
    {"include/hbmwire/b.hpp": "class B {\n public:\n  detail::State& state();\n\n private:\n" + STATE},
    {"include/hbmwire/b.hpp": "class B {\n private:\n  friend class C;\n" + STATE},
]
