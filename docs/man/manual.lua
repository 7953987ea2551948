-- SPDX-License-Identifier: MIT
-- A pandoc filter: makes a page for man(1) of a manual in Markdown. Runs with pandoc 2.17 (Debian 12) and 3.1 (Debian 13).
--
-- The manual begins with a heading and one sentence, which become the section NAME. Its headings of the second level become
-- the page's sections. A page of several manuals (hbmwire(7)) has one section for each heading of the first level after the
-- first one.
--
-- Metadata: "page", such as "hbmwire-perf(1)"; "folder", the folder of the manual in the tree, from which its links start.

-- Manuals that have a page. A link to another document names its file in the tree.
local PAGES = {
  ["docs/hbmwire.md"] = "hbmwire(1)",
  ["docs/server-client.md"] = "hbmwire-server(1)",
  ["docs/perf.md"] = "hbmwire-perf(1)",
  ["docs/perf-all.md"] = "hbmwire-perf-all(1)",
  ["docs/info.md"] = "hbmwire-info(1)",
  ["docs/stat.md"] = "hbmwire-stat(1)",
  ["docs/doctor.md"] = "hbmwire-doctor(1)",
  ["docs/trace.md"] = "hbmwire-trace(1)",
  ["emulation/docs/emulate.md"] = "hbmwire-emulate(1)",
  ["docs/settings.md"] = "hbmwire(7)",
  ["docs/exit-codes.md"] = "hbmwire(7)",
}
-- The manuals that share a page are sections of it.
local SECTIONS = { ["docs/settings.md"] = "SETTINGS", ["docs/exit-codes.md"] = "EXIT STATUS" }
-- A terminal of 80 columns, less the indentation of man's text and of a block, and a margin.
local BLOCK_COLUMNS = 67

local page, folder

local function fail(what)
  io.stderr:write("manual.lua: " .. (page or "?") .. ": " .. what .. "\n")
  os.exit(1)
end

local ESCAPES = {
  ["\\"] = "\\[rs]", ["-"] = "\\-", ["'"] = "\\[aq]", ["`"] = "\\[ga]", ["^"] = "\\[ha]", ["~"] = "\\[ti]", ['"'] = "\\[dq]",
}

local function escape(text)
  return (text:gsub("[\\%-'`^~\"]", ESCAPES))
end

-- Text as it is, in a font. pandoc 2.17 leaves hyphens as they are: lines would break at those of options and names. A list of
-- words that a setting takes may be longer than a line, so it may break behind a bar.
local function literal(font, text)
  local words = escape(text):gsub("|", "|\\:")
  return pandoc.RawInline("man", "\\f[" .. font .. "]" .. words .. "\\f[P]")
end

-- Lines as they are, indented by `columns`.
local function verbatim(text, columns)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = escape(line):gsub("^%.", "\\&.")
  end
  local block = ".PP\n.EX\n" .. table.concat(lines, "\n") .. "\n.EE"
  return pandoc.RawBlock("man", columns > 0 and ".RS " .. columns .. "\n" .. block .. "\n.RE" or block)
end

local function normalised(path)
  local parts = {}
  for part in path:gmatch("[^/]+") do
    if part == ".." then
      table.remove(parts)
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return table.concat(parts, "/")
end

local function reference(name)
  local title, section = name:match("^(.*)(%(%d%))$")
  return { literal("B", title), pandoc.Str(section) }
end

-- In brackets, since many links stand in parentheses.
local function with_goal(content, inlines)
  local result = pandoc.List(content)
  result:extend({ pandoc.Space(), pandoc.Str("[") })
  result:extend(inlines)
  result:insert(pandoc.Str("]"))
  return result
end

-- A page has no links: the text of each says where it leads.
local function Link(link)
  if link.target:match("^%a[%w+.-]*:") then
    return nil
  end
  local file = link.target:gsub("#.*", "")
  local path = normalised(folder .. "/" .. file)
  if file == "" or (PAGES[path] == page and not SECTIONS[path]) then
    return link.content
  end
  local text = pandoc.utils.stringify(link.content)
  local is_name = text:match("^[%w/-]+%.md$") or text:match("^hbmwire %w+$") or text == "hbmwire"
  local goal
  if PAGES[path] == page then
    if not is_name then
      return link.content
    end
    goal = { pandoc.Str("section"), pandoc.Space(), pandoc.Str(SECTIONS[path]) }
  elseif PAGES[path] then
    goal = reference(PAGES[path])
  else
    goal = { literal("I", path) }
  end
  return is_name and goal or with_goal(link.content, goal)
end

-- A table that fits stays one. In others the first column holds the terms of a list, and the other columns explain them.
local function Table(original)
  local simple = pandoc.utils.to_simple_table(original)
  local rows = pandoc.List()
  local has_head = false
  for _, cell in ipairs(simple.headers) do
    has_head = has_head or pandoc.utils.stringify(cell) ~= ""
  end
  if has_head then
    rows:insert(simple.headers)
  end
  rows:extend(simple.rows)

  local widths, total = {}, 0
  for _, row in ipairs(rows) do
    for column, cell in ipairs(row) do
      widths[column] = math.max(widths[column] or 0, utf8.len(pandoc.utils.stringify(cell)))
    end
  end
  for _, width in ipairs(widths) do
    total = total + width + 3
  end
  if total - 3 <= BLOCK_COLUMNS then
    local lines = {}
    for _, row in ipairs(rows) do
      local line = ""
      for column, cell in ipairs(row) do
        local text = pandoc.utils.stringify(cell)
        line = line .. text .. string.rep(" ", widths[column] + 3 - utf8.len(text))
      end
      lines[#lines + 1] = line:gsub(" +$", "")
    end
    return verbatim(table.concat(lines, "\n"), 4)
  end

  local items = {}
  for _, row in ipairs(simple.rows) do
    local meaning = pandoc.List()
    for column = 2, #row do
      local inlines = pandoc.utils.blocks_to_inlines(row[column])
      if #inlines > 0 then
        if #meaning > 0 then
          meaning:extend({ pandoc.Str("."), pandoc.Space() })
        end
        local head = pandoc.utils.stringify(simple.headers[column] or {})
        if column > 2 and head ~= "" then
          meaning:extend({ pandoc.Str(head:sub(1, 1):upper() .. head:sub(2) .. ":"), pandoc.Space() })
        end
        meaning:extend(inlines)
      end
    end
    items[#items + 1] = { pandoc.utils.blocks_to_inlines(row[1]), { { pandoc.Plain(meaning) } } }
  end
  return pandoc.DefinitionList(items)
end

-- In the term of an option its name is bold and the word for its value is italic.
local function option_term(text)
  local result, place = pandoc.List(), 1
  local function bold(last)
    if last >= place then
      result:insert(literal("B", text:sub(place, last)))
    end
  end
  for first, after in text:gmatch("()%f[%w_]%u[%u%d]*%f[^%w_]()") do
    local before, behind = text:sub(first - 1, first - 1), text:sub(after, after)
    if before ~= "-" and before ~= "|" and behind ~= "|" then
      bold(first - 1)
      result:insert(literal("I", text:sub(first, after - 1)))
      place = after
    end
  end
  bold(#text)
  return result
end

local function DefinitionList(list)
  for _, item in ipairs(list.content) do
    item[1] = pandoc.walk_block(pandoc.Plain(item[1]), {
      Code = function(code)
        return option_term(code.text)
      end,
    }).content
    for _, blocks in ipairs(item[2]) do
      for index, block in ipairs(blocks) do
        -- Text behind a block of code would join it.
        if #blocks > 1 and block.t == "Plain" then
          blocks[index] = pandoc.Para(block.content)
        end
      end
    end
  end
  return list
end

local function upper(inlines)
  return pandoc.walk_block(pandoc.Plain(inlines), {
    Str = function(str)
      return pandoc.Str(str.text:upper())
    end,
  }).content
end

-- NAME by the heading and the sentence that the manual begins with.
local function name_section(heading, sentence)
  if not heading or heading.t ~= "Header" or heading.level ~= 1 then
    fail("the manual does not begin with a heading of the first level")
  end
  local text = sentence and sentence.t == "Para" and pandoc.utils.stringify(sentence.content) or ""
  if not text:match("^[^.]+%.$") then
    fail('the heading is followed by "' .. text .. '", and not by one sentence for the section NAME')
  end
  local names = pandoc.utils.stringify(heading.content):gsub("hbmwire ", "hbmwire-")
  local summary = text:sub(1, 1):lower() .. text:sub(2, -2)
  return {
    pandoc.Header(1, { pandoc.Str("NAME") }),
    pandoc.Para({ pandoc.RawInline("man", escape(names .. " - " .. summary)) }),
  }
end

local function structure(document)
  local blocks = pandoc.List(name_section(document.blocks[1], document.blocks[2]))
  local titles = 0
  for _, block in ipairs(document.blocks) do
    if block.t == "Header" and block.level == 1 then
      titles = titles + 1
    end
  end
  local shift = titles > 1 and 0 or 1
  local section = ""
  for index = 3, #document.blocks do
    local block = document.blocks[index]
    if block.t == "Header" then
      local level = block.level - shift
      local content = block.content
      if level == 1 then
        content = upper(content)
        section = pandoc.utils.stringify(content)
      end
      blocks:insert(pandoc.Header(level, content))
    elseif section == "" then
      fail("there is text between the sentence for NAME and the first section")
    elseif block.t == "CodeBlock" and section == "SYNOPSIS" then
      blocks:insert(verbatim(block.text, 0))
    else
      blocks:insert(block)
    end
  end
  document.blocks = blocks
  return document
end

return {
  {
    Meta = function(meta)
      page = pandoc.utils.stringify(meta.page)
      folder = pandoc.utils.stringify(meta.folder)
    end,
  },
  { Pandoc = structure },
  { Link = Link },
  { Table = Table, DefinitionList = DefinitionList },
  {
    CodeBlock = function(block)
      return verbatim(block.text, 4)
    end,
    Code = function(code)
      return literal("B", code.text)
    end,
  },
}
