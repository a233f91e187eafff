--- The chat's window: a transcript that only grows, and that nobody types into.

local config = require('warmline.config')
local text = require('warmline.text')

local M = {}

local NAME = 'warmline://chat'
local buffer = nil ---@type integer?

local function window()
  return buffer and vim.fn.win_findbuf(buffer)[1] or nil
end

local function change(callback)
  if not buffer or not vim.api.nvim_buf_is_valid(buffer) then
    return
  end
  local at_end = {}
  local last = vim.api.nvim_buf_line_count(buffer)
  for _, win in ipairs(vim.fn.win_findbuf(buffer)) do
    at_end[win] = vim.api.nvim_win_get_cursor(win)[1] == last
  end
  vim.bo[buffer].modifiable = true
  callback(buffer)
  vim.bo[buffer].modifiable = false
  -- Who scrolled up to read stays there.
  for win, follow in pairs(at_end) do
    if follow then
      vim.api.nvim_win_set_cursor(win, { vim.api.nvim_buf_line_count(buffer), 0 })
    end
  end
end

local function made(chat)
  local bufnr = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(bufnr, NAME)
  vim.bo[bufnr].bufhidden = 'hide'
  vim.bo[bufnr].swapfile = false
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].filetype = 'markdown'
  local function map(key, callback, what)
    vim.keymap.set('n', key, callback, { buffer = bufnr, desc = 'Warmline: ' .. what })
  end
  map('<CR>', chat.prompt, 'ask')
  map('i', chat.prompt, 'ask')
  map('<C-c>', chat.stop, 'stop the answer')
  map('s', chat.stop, 'stop the answer') -- <C-c> only interrupts where it comes while Neovim is at work
  map('R', chat.restart, 'begin another conversation')
  map('q', '<Cmd>close<CR>', 'close')
  return bufnr
end

local function split()
  local options = config.options.chat
  if options.position == 'tab' then
    vim.cmd('tab split')
    vim.api.nvim_win_set_buf(0, assert(buffer))
    return
  end
  local right = options.position == 'right'
  vim.api.nvim_open_win(assert(buffer), true, {
    split = right and 'right' or 'below',
    win = -1,
    width = right and math.floor(vim.o.columns * options.size) or nil,
    height = not right and math.floor(vim.o.lines * options.size) or nil,
  })
end

---@param bufnr integer
---@return boolean
function M.holds(bufnr)
  return bufnr == buffer
end

--- Show the transcript; the window that is there is used.
---@param chat table what its keys do
function M.open(chat)
  if not buffer or not vim.api.nvim_buf_is_valid(buffer) then
    buffer = made(chat)
  end
  local there = window()
  if there then
    vim.api.nvim_set_current_win(there)
  else
    split()
    vim.wo.wrap, vim.wo.linebreak, vim.wo.number, vim.wo.signcolumn = true, true, false, 'no'
  end
  vim.api.nvim_win_set_cursor(0, { vim.api.nvim_buf_line_count(buffer), 0 })
end

--- Say in the window's bar what can be done.
---@param hint string
function M.title(hint)
  local win = window()
  if win then
    vim.wo[win].winbar = text.for_statusline('Warmline chat: ' .. hint)
  end
end

--- Begin a paragraph of its own.
---@param line string
function M.paragraph(line)
  change(function(bufnr)
    local count = vim.api.nvim_buf_line_count(bufnr)
    local first = count == 1 and vim.api.nvim_buf_get_lines(bufnr, 0, 1, true)[1] == ''
    local lines = first and { line, '', '' } or { '', line, '', '' }
    vim.api.nvim_buf_set_lines(bufnr, first and 0 or count, -1, true, lines)
  end)
end

--- Go on at the end.
---@param piece string text of a model: data
function M.stream(piece)
  change(function(bufnr)
    local row = vim.api.nvim_buf_line_count(bufnr) - 1
    local last = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, true)[1]
    vim.api.nvim_buf_set_text(bufnr, row, #last, row, #last, text.lines(piece))
  end)
end

function M.clear()
  change(function(bufnr)
    vim.api.nvim_buf_set_lines(bufnr, 0, -1, true, { '' })
  end)
end

return M
