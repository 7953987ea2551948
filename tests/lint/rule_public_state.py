# SPDX-License-Identifier: MIT
"""A public class holds one pointer, so that its state can change and programs stay as they are; its one friend is detail::Internals
(src/base/internals.hpp), and no public function takes or gives a type of namespace detail."""
import re

from rule_class_size import classes, declarations, measure, without_text

# With the reason in the header: values, and what the data path may not follow a pointer or allocate for.
VALUES = {"Deadline", "UniqueHandle", "RemoteRegion", "RegistrationLease"}
FRIEND = re.compile(r"\bfriend\b(?!\s+struct detail::Internals\s*$)")


def check(tree):
    for path in tree.cpp("include"):
        text = without_text("\n".join(line for _, line in tree.lines(path)))
        for name, line, body in classes(text):
            where = f"{path}:{line}: {name}"
            public, private, hidden = body.partition(" private:")
            if private and measure(hidden)[1] > 1 and name not in VALUES:
                yield f"{where} holds more than a pointer"
            if re.search(r"\bdetail::", public):
                yield f"{where} names a type of detail where programs see it"
            if any(FRIEND.match(one) for one in declarations(body)):
                yield f"{where} has another friend than detail::Internals"


GOOD = {
    "include/hbmwire/a.hpp": "class A {\n public:\n  int f() const;\n\n private:\n  friend struct detail::Internals;\n"
                             "  explicit A(std::shared_ptr<detail::State> state) noexcept;\n"
                             "  std::shared_ptr<detail::State> state_;\n};\nstruct Options {\n  int a = 0;\n  int b = 0;\n};\n",
    "src/base/a.hpp": "class B {\n private:\n  int a_;\n  int b_;\n};\n",
}
BAD = [
    {"include/hbmwire/b.hpp": "class B {\n public:\n  int f();\n\n private:\n  int a_;\n  int b_;\n};\n"},
    {"include/hbmwire/b.hpp": "class B {\n public:\n  detail::State& state();\n\n private:\n  int a_;\n};\n"},
    {"include/hbmwire/b.hpp": "class B {\n private:\n  friend class C;\n  int a_;\n};\n"},
]
