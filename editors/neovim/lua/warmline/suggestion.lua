--- One suggestion as it stands in a buffer, and what of it is still to be inserted. All columns are in bytes, from 0.

local M = {}

---@class warmline.Suggestion
---@field bufnr integer
---@field client_id integer
---@field row integer from 0
---@field start integer column at which `text` begins
---@field asked integer column of the cursor when it was asked for
---@field text string what the line says from `start` on once all of it is inserted
---@field after string what stands after the cursor
---@field command lsp.Command? what the server is to be told when it was accepted

---@param bufnr integer
---@param row integer
---@return string
local function line_at(bufnr, row)
  return vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ''
end

--- Read an item of the server's answer to a request at a place.
---@param item lsp.InlineCompletionItem
---@param client vim.lsp.Client
---@param place { bufnr: integer, row: integer, col: integer }
---@return warmline.Suggestion? nil where it is not about the cursor's line
function M.read(item, client, place)
  local content = item.insertText
  if type(content) ~= 'string' then
    return nil
  end
  local line = line_at(place.bufnr, place.row)
  local start = place.col
  if item.range then
    if item.range.start.line ~= place.row or item.range['end'].line ~= place.row then
      return nil
    end
    start = vim.str_byteindex(line, client.offset_encoding, item.range.start.character, false)
  end
  return {
    bufnr = place.bufnr,
    client_id = client.id,
    row = place.row,
    start = start,
    asked = place.col,
    text = content,
    after = line:sub(place.col + 1),
    command = item.command,
  }
end

--- What is left of a suggestion at a cursor; nil where it does not hold there: something else was typed, or deleted.
---@param suggestion warmline.Suggestion
---@param place { bufnr: integer, row: integer, col: integer }
---@return string?
function M.rest(suggestion, place)
  if place.bufnr ~= suggestion.bufnr or place.row ~= suggestion.row or place.col < suggestion.asked then
    return nil
  end
  local line = line_at(place.bufnr, place.row)
  local typed = line:sub(suggestion.start + 1, place.col)
  if line:sub(place.col + 1) ~= suggestion.after or not vim.startswith(suggestion.text, typed) then
    return nil
  end
  local rest = suggestion.text:sub(#typed + 1)
  return rest ~= '' and rest or nil
end

--- The beginning of a text that is taken at once.
---@param rest string
---@param part 'all'|'line'|'word'
---@return string
function M.part(rest, part)
  if part == 'all' then
    return rest
  elseif part == 'line' then
    -- A text that begins on the next line gives that line.
    return rest:match('^\n?[^\n]*') --[[@as string]]
  end
  -- Space before it goes along; letters of other scripts are bytes above 127.
  return rest:match('^%s*[%w_\128-\255]+') or rest:match('^%s*[^%w_%s\128-\255]+') or rest
end

return M
