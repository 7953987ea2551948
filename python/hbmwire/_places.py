# SPDX-License-Identifier: MIT
"""Finds addresses in registered memory, and turns them into blocks of tables.

`nixl` and `mooncake` name memory by plain addresses, but an endpoint moves blocks of tables. There
may be a million addresses, so numpy does the work if it can be imported. Without numpy, loops do
the same.
"""

from __future__ import annotations

import array
import bisect
import importlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from . import errors

__all__ = [
    "Blocks",
    "Finder",
    "Group",
    "Pairs",
    "Piece",
    "Rows",
    "lost",
    "pair",
    "prepare",
    "rows_of",
]


def _import_numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


numpy = _import_numpy()

# At most this many areas are sliced one by one, which costs a microsecond and some 100 bytes each.
# With more areas, each piece of memory gets a table of its own, made from an array.
_MOST_SLICES = 1024

# A flat array: address, length and device of each descriptor in turn.
Rows = Any


class Piece(NamedTuple):
    """Registered memory: a range of addresses of one device."""

    address: int
    nbytes: int
    device: int


class Group(NamedTuple):
    """Blocks of one length, numbered from 0: of one piece, or of a few areas of several pieces."""

    block_bytes: int
    piece: int | None  # None: `areas` is a list of (piece, offset, nbytes)
    areas: Any  # if of one piece: N x 2 of uint64, offset and nbytes


class Blocks(NamedTuple):
    """Descriptors as blocks: descriptor i is block number_of[i] of the group group_of[i]."""

    size: int
    groups: list[Group]
    group_of: Any  # None: all are of the first group
    number_of: Any  # None: i itself


class Pairs(NamedTuple):
    """Pairs of block numbers, of one group here and one group there."""

    local: int
    remote: int
    numbers: tuple[Any, Any]


def rows_of(descriptors: Any, lengths: Sequence[int] = (3,)) -> Rows:
    """A copy of a list of tuples, or of an N x 3 array of 64-bit integers, as one flat array.

    `lengths`: how many members a tuple may have. Only the first three count.
    """
    if isinstance(descriptors, (list, tuple)):
        if any(len(one) not in lengths for one in descriptors):
            raise errors.make(
                "invalid_argument", f"a descriptor is not a tuple of {lengths[-1]} members"
            )
        try:
            return array.array("Q", [number for one in descriptors for number in one[:3]])
        except (OverflowError, TypeError) as cause:
            raise errors.make(
                "invalid_argument", f"a descriptor is not three numbers below 2**64: {cause}"
            ) from None
    view = memoryview(descriptors)
    if view.ndim != 2 or view.shape is None or view.shape[1] != 3:
        raise errors.make("invalid_argument", "an array of descriptors has the shape N x 3")
    if view.itemsize != 8 or view.format.lstrip("@=<") not in ("Q", "L", "q", "l"):
        raise errors.make("invalid_argument", "an array of descriptors is of uint64 or int64")
    flat = array.array("Q")
    flat.frombytes(view.tobytes())  # in C order, even if the array is a view of another one
    return flat


def prepare(rows: Rows, pieces: Sequence[Piece], subject: str) -> Blocks:
    """Finds the piece of each row, and makes blocks of the rows.

    Raises NotFound if a row lies in no piece, and InvalidArgument if a row has no bytes.
    """
    if len(rows) == 0:
        return Blocks(0, [], None, None)
    return _by_numpy(rows, pieces, subject) if numpy else _by_loops(rows, pieces, subject)


def pair(local: Blocks, local_ids: Any, remote: Blocks, remote_ids: Any) -> list[Pairs]:
    """Pairs of blocks for descriptors that are given by their numbers, grouped.

    Raises InvalidArgument if the two sides have different numbers of descriptors, if a descriptor
    does not exist, or if two that belong together differ in length.
    """
    here = _numbers(local_ids, local.size, "local")
    there = _numbers(remote_ids, remote.size, "remote")
    if len(here) != len(there):
        raise errors.make(
            "invalid_argument", f"{len(here)} local descriptors, {len(there)} remote ones"
        )
    if len(here) == 0:
        return []
    split = _split_by_numpy if numpy else _split_by_loops
    pairs = split(local, here, remote, there)
    for one in pairs:
        lengths = local.groups[one.local].block_bytes, remote.groups[one.remote].block_bytes
        if lengths[0] != lengths[1]:
            raise errors.make(
                "invalid_argument",
                f"a local descriptor of {lengths[0]} bytes with a remote one of {lengths[1]} bytes",
            )
    return pairs


def lost(row: Iterable[int], subject: str) -> errors.Error:
    """The error of a descriptor that lies in no registered memory."""
    address, length, device = row
    return errors.make(
        "not_found",
        f"no registered memory has the {length} bytes at {address:#x} of device {device}",
        "register_memory() comes first, and the peer's metadata after it",
        stage="register_memory",
        subject=subject,
    )


def _empty(index: int, subject: str) -> errors.Error:
    return errors.make("invalid_argument", f"descriptor {index} has no bytes", subject=subject)


# --- with numpy


def _by_numpy(rows: Rows, pieces: Sequence[Piece], subject: str) -> Blocks:
    table = numpy.frombuffer(rows, dtype=numpy.uint64).reshape(-1, 3)
    lengths = table[:, 1]
    if not lengths.all():
        raise _empty(int(numpy.flatnonzero(lengths == 0)[0]), subject)
    piece_of, offsets = _places(table, pieces, subject)
    groups: list[Group] = []
    group_of = numpy.zeros(len(table), dtype=numpy.uint32)
    number_of = numpy.arange(len(table), dtype=numpy.uint32)
    for length in numpy.unique(lengths):
        chosen = numpy.flatnonzero(lengths == length)
        for members, group in _groups(chosen, piece_of, offsets, int(length)):
            group_of[members] = len(groups)
            number_of[members] = numpy.arange(len(members), dtype=numpy.uint32)
            groups.append(group)
    if len(groups) == 1:
        return Blocks(len(table), groups, None, None)
    return Blocks(len(table), groups, group_of, number_of)


def _places(table: Any, pieces: Sequence[Piece], subject: str) -> tuple[Any, Any]:
    """The piece of each row, and its offset there."""
    addresses, lengths, devices = table[:, 0], table[:, 1], table[:, 2]
    piece_of = numpy.full(len(table), -1, dtype=numpy.int64)
    offsets = numpy.zeros(len(table), dtype=numpy.uint64)
    for device in numpy.unique(devices):
        order = sorted(
            (i for i, piece in enumerate(pieces) if piece.device == device),
            key=lambda i: pieces[i].address,
        )
        if not order:
            continue
        bases = numpy.array([pieces[i].address for i in order], dtype=numpy.uint64)
        found = numpy.flatnonzero(devices == device)
        # The last piece that begins at or before the address. If pieces overlap and this one is too
        # short, an earlier piece may fit: _fill() looks for it.
        near = numpy.searchsorted(bases, addresses[found], side="right") - 1
        for guess in numpy.unique(near[near >= 0]):
            _fill(piece_of, offsets, table, found[near == guess], order[guess], pieces)
        for i in order:
            left = found[piece_of[found] < 0]
            if len(left) == 0:
                break
            _fill(piece_of, offsets, table, left, i, pieces)
    if (piece_of < 0).any():
        raise lost((int(x) for x in table[numpy.flatnonzero(piece_of < 0)[0]]), subject)
    return piece_of, offsets


def _fill(
    piece_of: Any, offsets: Any, table: Any, members: Any, index: int, pieces: Sequence[Piece]
) -> None:
    """Notes the place of each member that lies in this piece."""
    piece = pieces[index]
    base, nbytes = numpy.uint64(piece.address), numpy.uint64(piece.nbytes)
    addresses, lengths = table[members, 0], table[members, 1]
    inside = addresses - base  # below the base this wraps around, and is too large
    fits = (addresses >= base) & (lengths <= nbytes)
    fits &= inside <= nbytes - numpy.minimum(lengths, nbytes)
    piece_of[members[fits]] = index
    offsets[members[fits]] = inside[fits]


def _groups(
    chosen: Any, piece_of: Any, offsets: Any, length: int
) -> Iterable[tuple[Any, Group]]:
    starts, areas = _runs(chosen, piece_of, offsets, length)
    if len(starts) <= _MOST_SLICES:
        few = [
            (int(piece_of[chosen[start]]), int(offset), int(nbytes))
            for start, (offset, nbytes) in zip(starts, areas)
        ]
        yield chosen, Group(length, None, few)
        return
    for piece in numpy.unique(piece_of[chosen]):
        members = chosen[piece_of[chosen] == piece]
        yield members, Group(length, int(piece), _runs(members, piece_of, offsets, length)[1])


def _runs(chosen: Any, piece_of: Any, offsets: Any, length: int) -> tuple[Any, Any]:
    """Joins blocks that follow each other in the list and in memory into areas.

    Returns where each area begins in `chosen`, and its offset and length.
    """
    places = offsets[chosen]
    apart = places[1:] != places[:-1] + numpy.uint64(length)
    apart |= piece_of[chosen[1:]] != piece_of[chosen[:-1]]
    starts = numpy.concatenate(([0], numpy.flatnonzero(apart) + 1))
    blocks = numpy.diff(numpy.append(starts, len(chosen))).astype(numpy.uint64)
    areas = numpy.stack((places[starts], blocks * numpy.uint64(length)), axis=1)
    return starts, numpy.ascontiguousarray(areas)


def _split_by_numpy(local: Blocks, here: Any, remote: Blocks, there: Any) -> list[Pairs]:
    numbers_here = here if local.number_of is None else local.number_of[here]
    numbers_there = there if remote.number_of is None else remote.number_of[there]
    if local.group_of is None and remote.group_of is None:
        return [Pairs(0, 0, (numbers_here, numbers_there))]
    zeros = numpy.zeros(len(here), dtype=numpy.int64)
    group_here = zeros if local.group_of is None else local.group_of[here].astype(numpy.int64)
    group_there = zeros if remote.group_of is None else remote.group_of[there].astype(numpy.int64)
    both = group_here * len(remote.groups) + group_there  # one number for each pair of groups
    order = numpy.argsort(both, kind="stable")
    starts = numpy.flatnonzero(numpy.diff(both[order], prepend=-1))  # of each pair's blocks
    pairs = []
    for members in numpy.split(order, starts[1:]):
        one, other = divmod(int(both[members[0]]), len(remote.groups))
        pairs.append(Pairs(one, other, (numbers_here[members], numbers_there[members])))
    return pairs


# --- without numpy


def _by_loops(rows: Rows, pieces: Sequence[Piece], subject: str) -> Blocks:
    finder = Finder(pieces)
    groups: list[Group] = []
    group_by_length: dict[int, int] = {}
    sizes: list[int] = []
    group_of, number_of = array.array("I"), array.array("I")
    for i in range(0, len(rows), 3):
        address, length, device = rows[i : i + 3]
        if length == 0:
            raise _empty(i // 3, subject)
        place = finder.find(address, length, device)
        if place is None:
            raise lost((address, length, device), subject)
        group = group_by_length.setdefault(length, len(groups))
        if group == len(groups):
            groups.append(Group(length, None, []))
            sizes.append(0)
        _append(groups[group].areas, *place, length)
        group_of.append(group)
        number_of.append(sizes[group])
        sizes[group] += 1
    if len(groups) == 1:
        return Blocks(len(number_of), groups, None, None)
    return Blocks(len(number_of), groups, group_of, number_of)


def _append(areas: list[tuple[int, int, int]], piece: int, offset: int, length: int) -> None:
    if areas:
        last, start, nbytes = areas[-1]
        if last == piece and start + nbytes == offset:
            areas[-1] = (piece, start, nbytes + length)
            return
    areas.append((piece, offset, length))


class Finder:
    """Finds single addresses."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        keys = [(piece.device, piece.address) for piece in pieces]
        self._order = sorted(range(len(pieces)), key=keys.__getitem__)
        self._keys = [keys[i] for i in self._order]

    def find(self, address: int, length: int, device: int) -> tuple[int, int] | None:
        """The index of the piece and the offset in it; None if no piece has all of the range."""
        at = bisect.bisect_right(self._keys, (device, address))
        for index in reversed(self._order[:at]):
            piece = self._pieces[index]
            if piece.device != device:
                return None
            if address + length <= piece.address + piece.nbytes:
                return index, address - piece.address
        return None


def _split_by_loops(local: Blocks, here: Any, remote: Blocks, there: Any) -> list[Pairs]:
    if local.group_of is None and remote.group_of is None:
        return [Pairs(0, 0, (here, there))]
    pairs: dict[tuple[int, int], Pairs] = {}
    for one, other in zip(here, there):
        groups = (
            0 if local.group_of is None else local.group_of[one],
            0 if remote.group_of is None else remote.group_of[other],
        )
        found = pairs.setdefault(groups, Pairs(*groups, (array.array("I"), array.array("I"))))
        found.numbers[0].append(one if local.number_of is None else local.number_of[one])
        found.numbers[1].append(other if remote.number_of is None else remote.number_of[other])
    return list(pairs.values())


def _numbers(ids: Any, count: int, side: str) -> Any:
    """A copy of the numbers, since the caller may change the array. All must be below `count`."""
    bad = errors.make(
        "invalid_argument", f"numbers of {side} descriptors are 0 to {count - 1}, in one dimension"
    )
    if numpy:
        given = numpy.asarray(ids)
        if given.size == 0:
            return numpy.zeros(0, dtype=numpy.uint32)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise bad
        if int(given.min()) < 0 or int(given.max()) >= count:
            raise bad
        return given.astype(numpy.uint32)
    try:
        numbers = array.array("I", ids)
    except (OverflowError, TypeError):
        raise bad from None
    if len(numbers) and max(numbers) >= count:
        raise bad
    return numbers
