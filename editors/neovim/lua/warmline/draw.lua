--- Draws ghost text with extmarks: the rest of the line at the cursor, further lines below.

local text = require('warmline.text')

local M = {}

local namespace = vim.api.nvim_create_namespace('warmline')

--- Define the highlights; a colour scheme may have its own. `Comment` has no colour in a terminal of 16.
function M.define_highlights()
  vim.api.nvim_set_hl(0, 'WarmlineGhost', { default = true, fg = '#8b929e', ctermfg = 8, italic = true })
  vim.api.nvim_set_hl(0, 'WarmlineGhostMore', { default = true, fg = '#8b929e', ctermfg = 8, reverse = true })
end

--- Expand tabs, which virtual text shows as two characters.
local function expanded(line, column, tabstop)
  local result = ''
  for piece, tab in line:gmatch('([^\t]*)(\t?)') do
    result = result .. piece
    if tab ~= '' then
      local at = column + vim.fn.strdisplaywidth(result, column)
      result = result .. (' '):rep(tabstop - at % tabstop)
    end
  end
  return result
end

---@param bufnr integer
function M.clear(bufnr)
  if vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

---@param place { bufnr: integer, row: integer, col: integer }
---@param rest string
---@param more string? which of how many candidates it is
function M.show(place, rest, more)
  M.clear(place.bufnr)
  local tabstop = vim.bo[place.bufnr].tabstop
  local lines = {}
  for number, line in ipairs(text.lines(rest)) do
    local column = number == 1 and vim.fn.virtcol('.') - 1 or 0
    lines[number] = { { expanded(line, column, tabstop), 'WarmlineGhost' } }
  end
  if more then
    table.insert(lines[#lines], { ' ' .. more, 'WarmlineGhostMore' })
  end
  vim.api.nvim_buf_set_extmark(place.bufnr, namespace, place.row, place.col, {
    virt_text = table.remove(lines, 1),
    virt_text_pos = 'inline',
    virt_lines = #lines > 0 and lines or nil,
    hl_mode = 'combine',
  })
end

return M
