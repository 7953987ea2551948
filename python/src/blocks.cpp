// SPDX-License-Identifier: MIT
#include "blocks.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "arguments.hpp"
#include "errors.hpp"
#include "held_buffer.hpp"
#include "parts.hpp"

namespace hbmwire::python {

BlockTableObject block_table(const std::vector<SliceObject>& areas, std::uint64_t block_bytes) {
  std::vector<Slice> slices;
  std::vector<SharedRegion> regions;
  slices.reserve(areas.size());
  for (const SliceObject& area : areas) {
    slices.push_back(area.slice());
    // Areas of one region usually follow each other.
    if (regions.empty() || regions.back() != area.hold) regions.push_back(area.hold);
  }
  BlockTable table = value(BlockTable::create(slices, block_bytes));
  return {std::make_shared<const HeldTable>(HeldTable{std::move(table), std::move(regions)})};
}

RemoteBlockTableObject remote_block_table(const std::vector<RemoteSliceObject>& areas,
                                          std::uint64_t block_bytes) {
  std::vector<RemoteSlice> slices;
  slices.reserve(areas.size());
  for (const RemoteSliceObject& area : areas) slices.push_back(area.slice());
  return {std::make_shared<const RemoteBlockTable>(
      value(RemoteBlockTable::create(slices, block_bytes)))};
}

namespace {

std::string_view format_of(const Py_buffer& view) {
  return view.format == nullptr ? "B" : view.format;
}

/// Whether the elements are integers of 32 or 64 bits, as the buffer protocol describes them.
bool are_integers(const Py_buffer& view) {
  const std::string_view format = format_of(view);
  return !format.empty() && format.find_first_not_of("@=<") + 1 == format.size() &&
         std::string_view("iIlLqQ").find(format.back()) != std::string_view::npos &&
         (view.itemsize == 4 || view.itemsize == 8);
}

/// `count` numbers at distances of `stride` bytes. A negative number becomes larger than any
/// memory.
template <class Number>
std::vector<std::uint64_t> copy_column(const char* first, Py_ssize_t stride, Py_ssize_t count) {
  std::vector<std::uint64_t> column(static_cast<std::size_t>(count));
  for (std::uint64_t& to : column) {
    Number number = 0;
    std::memcpy(&number, first, sizeof(number));
    to = static_cast<std::uint64_t>(number);
    first += stride;
  }
  return column;
}

using Numbers = std::vector<std::vector<std::uint64_t>>;

/// The columns, which keep the numbers themselves.
Columns columns_with(Numbers numbers) {
  const auto keep = std::make_shared<const Numbers>(std::move(numbers));
  Columns columns{{}, keep};
  for (const auto& column : *keep) columns.columns.emplace_back(column);
  return columns;
}

/// The columns of an array; nothing if it is no array.
std::optional<Numbers> copy_array(py::handle array, std::size_t count) {
  if (PyObject_CheckBuffer(array.ptr()) == 0) return std::nullopt;
  const HeldBuffer held(array, PyBUF_STRIDES | PyBUF_FORMAT);
  const Py_buffer& view = held.view();
  if (view.ndim != 2 || view.shape[1] != static_cast<Py_ssize_t>(count) || !are_integers(view)) {
    throw py::value_error("an array of shape (N, " + std::to_string(count) +
                          ") is needed, of integers of 32 or 64 bits");
  }
  Numbers columns;
  for (std::size_t column = 0; column < count; ++column) {
    const char* const first =
        static_cast<const char*>(view.buf) + static_cast<Py_ssize_t>(column) * view.strides[1];
    const bool is_signed =
        std::string_view("ilq").find(format_of(view).back()) != std::string_view::npos;
    // 64 bits are copied as they are, signed or not.
    const auto copy = view.itemsize == 8 ? &copy_column<std::uint64_t>
                      : is_signed        ? &copy_column<std::int32_t>
                                         : &copy_column<std::uint32_t>;
    columns.push_back(copy(first, view.strides[0], view.shape[0]));
  }
  return columns;
}

Numbers copy_rows(py::handle rows, std::size_t count) {
  Numbers columns(count);
  for (const py::handle row : items_of(rows, "numbers", "an array or rows are needed")) {
    std::size_t column = 0;
    for (const py::handle number : items_of(row, "numbers", "rows of numbers are needed")) {
      if (column == count) break;
      columns[column++].push_back(number_of(number, "a number of an array"));
    }
    if (column != count || py::len(row) != count)
      throw py::value_error("each row has " + std::to_string(count) + " numbers");
  }
  return columns;
}

/// One column, in place in the program's memory.
BlockNumbers numbers_of(const HeldBuffer& held) {
  const Py_buffer& view = held.view();
  if (view.ndim != 1 || !are_integers(view))
    throw py::value_error("arrays of shape (N,) are needed, of integers of 32 or 64 bits");
  BlockNumbers numbers;
  numbers.first = view.buf;
  numbers.size = static_cast<std::size_t>(view.shape[0]);
  numbers.wide = view.itemsize == 8;
  return numbers;
}

}  // namespace

Columns columns_of(py::handle array, std::size_t count) {
  if (auto columns = copy_array(array, count)) return columns_with(std::move(*columns));
  return columns_with(copy_rows(array, count));
}

Columns pairs_of(py::handle pairs) {
  const bool are_two = PyTuple_Check(pairs.ptr()) != 0 && py::len(pairs) == 2 &&
                       PyObject_CheckBuffer(PyTuple_GET_ITEM(pairs.ptr(), 0)) != 0;
  if (!are_two) return columns_of(pairs, 2);
  const auto views = std::make_shared<std::vector<HeldBuffer>>();
  Columns columns{{}, views};
  for (const py::handle one : pairs) {
    views->emplace_back(one, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
    columns.columns.push_back(numbers_of(views->back()));
  }
  return columns;
}

namespace {

template <class SliceKind, class Convert>
std::vector<SliceKind> slices_of(const py::object& areas, const Convert& convert) {
  std::vector<SliceKind> slices;
  for (const py::handle area : items_of(areas, "areas", "Regions or Slices are needed"))
    slices.push_back(convert(area));
  return slices;
}

/// Areas of one region, from their offsets and lengths.
template <class SliceKind>
std::vector<SliceKind> ranges_of(const SliceKind& whole, const py::object& ranges) {
  const Columns columns = columns_of(ranges, 2);
  std::vector<SliceKind> slices;
  slices.reserve(columns.columns[0].size);
  for (std::size_t i = 0; i < columns.columns[0].size; ++i)
    slices.push_back({whole.hold, columns.columns[0][i], columns.columns[1][i]});
  return slices;
}

}  // namespace

void bind_blocks(py::module_& module) {
  py::class_<BlockTableObject>(module, "BlockTable",
                               R"(This end's memory as blocks of equal length, numbered from 0 on.

BlockTable(areas, block_bytes) takes a list of Regions and Slices; BlockTable(region, ranges,
block_bytes) one region, and an array of shape (N, 2) with the offset and the length of each area.
Each area is a whole number of blocks, numbered in the order of the areas. Immutable. Raises
InvalidArgument.)")
      .def(py::init([](const RegionObject& region, const py::object& areas,
                       std::uint64_t block_bytes) {
             return block_table(ranges_of(SliceObject{region.open(), 0, 0}, areas), block_bytes);
           }),
           py::arg("region"), py::arg("areas"), py::arg("block_bytes"))
      .def(py::init([](const py::object& areas, std::uint64_t block_bytes) {
             return block_table(slices_of<SliceObject>(areas, local_of), block_bytes);
           }),
           py::arg("areas"), py::arg("block_bytes"))
      .def("__len__", [](const BlockTableObject& self) { return self.hold->table.size(); })
      .def("__repr__",
           [](const BlockTableObject& self) {
             return "<hbmwire.BlockTable " + std::to_string(self.hold->table.size()) +
                    " blocks of " + std::to_string(self.hold->table.block_bytes()) + " bytes>";
           })
      .def_property_readonly(
          "block_bytes",
          [](const BlockTableObject& self) { return self.hold->table.block_bytes(); },
          "The length of each block in bytes.");
  py::class_<RemoteBlockTableObject>(module, "RemoteBlockTable",
                                     "The peer's memory as blocks of equal length: as BlockTable, "
                                     "of RemoteRegions and RemoteSlices.")
      .def(py::init(
               [](const RemoteObject& region, const py::object& areas, std::uint64_t block_bytes) {
                 return remote_block_table(ranges_of(RemoteSliceObject{region.hold, 0, 0}, areas),
                                           block_bytes);
               }),
           py::arg("region"), py::arg("areas"), py::arg("block_bytes"))
      .def(py::init([](const py::object& areas, std::uint64_t block_bytes) {
             return remote_block_table(slices_of<RemoteSliceObject>(areas, remote_of), block_bytes);
           }),
           py::arg("areas"), py::arg("block_bytes"))
      .def("__len__", [](const RemoteBlockTableObject& self) { return self.hold->size(); })
      .def("__repr__",
           [](const RemoteBlockTableObject& self) {
             return "<hbmwire.RemoteBlockTable " + std::to_string(self.hold->size()) +
                    " blocks of " + std::to_string(self.hold->block_bytes()) + " bytes>";
           })
      .def_property_readonly(
          "block_bytes",
          [](const RemoteBlockTableObject& self) { return self.hold->block_bytes(); },
          "The length of each block in bytes.");
}

}  // namespace hbmwire::python
