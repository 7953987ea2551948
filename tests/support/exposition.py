# SPDX-License-Identifier: MIT
"""Reads Prometheus' text format, version 0.0.4, and finds violations of its rules and conventions.

The rules: https://prometheus.io/docs/instrumenting/exposition_formats/, and those of `promtool check metrics`.
"""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
# Units that are not base units, and their short forms.
OTHER_UNITS = {"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d", "milliseconds", "microseconds",
               "nanoseconds", "minutes", "hours", "days", "bits", "kilobytes", "megabytes", "gigabytes", "kib", "mib", "gib"}
UNITS = ("seconds", "bytes")
ESCAPES = {"\\": "\\", '"': '"', "n": "\n"}


class Family:
    def __init__(self, name):
        self.name, self.help, self.type = name, None, None
        self.samples = []  # (suffix, labels, value)

    def label_names(self):
        return {name for _, labels, _ in self.samples for name in labels}

    def value(self, **labels):
        """The sum of the samples with these labels."""
        return sum(value for suffix, found, value in self.samples
                   if suffix == "" and all(found.get(name) == wanted for name, wanted in labels.items()))


class Exposition:
    """A text; `.families` by name, and `.faults`, one sentence for each."""

    def __init__(self, text):
        self.families, self.faults = {}, []
        self._series = set()
        self._last = None
        if text and not text.endswith("\n"):
            self.faults.append("the last line has no end")
        for number, line in enumerate(text.split("\n")[:-1], 1):
            fault = self._line(line)
            if fault:
                self.faults.append(f"line {number}: {fault}: {line}")
        for family in self.families.values():
            self.faults += [f"{family.name}: {fault}" for fault in faults_of(family)]

    def _line(self, line):
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            return self._comment(*line[2:].split(" ", 2))
        if line.startswith("#") or not line:
            return "neither a sample, nor HELP, nor TYPE"
        return self._sample(line)

    def _comment(self, what, name, text=""):
        if not NAME.fullmatch(name):
            return "no name of a metric"
        family = self.families.setdefault(name, Family(name))
        if family.samples:
            return "it follows samples of its metric"
        if what == "HELP":
            if family.help is not None or not text:
                return "a second HELP, or an empty one"
            family.help = text
            return None
        if family.type is not None or text not in TYPES:
            return "a second TYPE, or an unknown one"
        family.type = text
        return None

    def _sample(self, line):
        match = NAME.match(line)
        if not match:
            return "no name of a metric"
        name, rest = match[0], line[match.end():]
        labels, rest = labels_of(rest)
        if labels is None:
            return rest
        match = re.fullmatch(r" (\S+)", rest)
        if not match:
            return "not one value behind it"
        try:
            value = float(match[1])
        except ValueError:
            return "no number"
        family, suffix = self._family_of(name)
        if family is None or family.help is None or family.type is None:
            return "no HELP and TYPE before it"
        if family.samples and self._last is not family:
            return "not beside the other samples of its metric"
        self._last = family
        series = (name, tuple(sorted(labels.items())))
        if series in self._series:
            return "the series is there twice"
        self._series.add(series)
        family.samples.append((suffix, labels, value))
        return None

    def _family_of(self, name):
        for suffix in ("_bucket", "_sum", "_count"):
            base = name.removesuffix(suffix)
            if base != name and base in self.families and self.families[base].type == "histogram":
                return self.families[base], suffix
        return self.families.get(name), ""


def labels_of(text):
    """The labels, and the text after them; None after a fault."""
    labels = {}
    if not text.startswith("{"):
        return labels, text
    at = 1
    while text[at:at + 1] != "}":
        match = LABEL_NAME.match(text, at)
        if not match or match[0].startswith("__") or text[match.end():match.end() + 2] != '="':
            return None, "no name of a label"
        value, at = "", match.end() + 2
        while text[at:at + 1] not in ('"', ""):
            if text[at] == "\\":
                if text[at + 1:at + 2] not in ESCAPES:
                    return None, "an escape that there is not"
                value, at = value + ESCAPES[text[at + 1]], at + 2
            else:
                value, at = value + text[at], at + 1
        if at >= len(text):
            return None, "a value without its end"
        if match[0] in labels:
            return None, "a label that is there twice"
        labels[match[0]] = value
        at += 1
        if text[at:at + 1] == ",":
            at += 1
        elif text[at:at + 1] != "}":
            return None, "neither another label nor the end"
    return labels, text[at + 1:]


def faults_of(family):
    """Finds violations of conventions."""
    parts = family.name.split("_")
    if family.type == "counter" and parts[-1] != "total":
        yield "a counter's name ends in _total"
    if family.type != "counter" and parts[-1] == "total":
        yield "only a counter's name ends in _total"
    if family.name != family.name.lower() or ":" in family.name:
        yield "a name has small letters and no colon"
    for kind in TYPES:
        if kind in parts[1:] and kind != "untyped":
            yield f"a name does not have the type {kind}"
    for unit in OTHER_UNITS & set(parts[1:]):
        yield f"{unit} is no base unit"
    for unit in UNITS:
        if unit in parts and not re.search(rf"_{unit}(_total)?$", family.name):
            yield f"the unit {unit} is not at the end"
    if family.type == "histogram":
        yield from faults_of_histogram(family)
        return
    if re.search(r"_(bucket|count|sum)$", family.name):
        yield "only a histogram has this end"
    if "le" in family.label_names():
        yield "only a histogram has the label le"
    if family.type == "counter" and any(not 0 <= value < math.inf for _, _, value in family.samples):
        yield "a counter is a number from 0"


def faults_of_histogram(family):
    series = {}
    for suffix, labels, value in family.samples:
        rest = tuple(sorted((name, each) for name, each in labels.items() if name != "le"))
        one = series.setdefault(rest, {"buckets": [], "_sum": None, "_count": None})
        if suffix == "_bucket":
            if "le" not in labels:
                yield "a bucket without le"
                continue
            one["buckets"].append((float(labels["le"]), value))
        elif suffix == "" or "le" in labels:
            yield "a sample that is no part of a histogram"
        else:
            one[suffix] = value
    for rest, one in series.items():
        bounds = [bound for bound, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        if one["_sum"] is None or one["_count"] is None:
            yield f"{rest}: no _sum, or no _count"
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != math.inf:
            yield f"{rest}: bounds do not ascend to +Inf"
        elif counts != sorted(counts) or counts[-1] != one["_count"]:
            yield f"{rest}: buckets are not cumulative, or +Inf is not _count"
