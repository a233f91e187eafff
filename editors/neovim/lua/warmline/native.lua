--- Ghost text by Neovim 0.12's own `vim.lsp.inline_completion`, as its documentation describes it.
---
--- Neovim draws, waits and takes; here is what it leaves out: words and lines, and the end of overtaken requests.

local pause = require('warmline.pause')
local server = require('warmline.server')
local suggestion = require('warmline.suggestion')

local M = {}

local METHOD = 'textDocument/inlineCompletion'

--- Where a `vim.Range` begins; its fields are documented as experimental, and have had two shapes.
---@return integer row, integer col
local function start_of(range)
  if range.start_row then
    return range.start_row, range.start_col
  end
  return range.start.row, range.start.col
end

--- Insert the beginning of what is left of an item, instead of all of it.
---@param part 'line'|'word'
---@return fun(item: { insert_text: any, range: table? })
local function taking(part)
  return function(item)
    local cursor = vim.api.nvim_win_get_cursor(0)
    local row, col = cursor[1] - 1, cursor[2]
    local content = item.insert_text
    if type(content) ~= 'string' then
      return
    end
    local start_row, start = row, col
    if item.range then
      start_row, start = start_of(item.range)
    end
    local typed = vim.api.nvim_get_current_line():sub(start + 1, col)
    if start_row ~= row or not vim.startswith(content, typed) then
      return
    end
    local taken = suggestion.part(content:sub(#typed + 1), part)
    local lines = vim.split(taken, '\n', { plain = true })
    vim.api.nvim_buf_set_text(0, row, col, row, col, lines)
    vim.api.nvim_win_set_cursor(0, { row + #lines, #lines[#lines] + (#lines == 1 and col or 0) })
  end
end

---@param part 'all'|'line'|'word'
---@return boolean done
function M.accept(part)
  local options = part ~= 'all' and { on_accept = taking(part) } or nil
  return vim.lsp.inline_completion.get(options)
end

---@param step integer
---@return boolean done
function M.cycle(step)
  vim.lsp.inline_completion.select({ count = step })
  return true
end

local function set(enabled, bufnr)
  vim.lsp.inline_completion.enable(enabled, { bufnr = bufnr })
end

--- Neovim has no call that hides one suggestion: switched off and on again it shows none until something changes.
function M.dismiss()
  local bufnr = vim.api.nvim_get_current_buf()
  set(false, bufnr)
  set(pause.reason(bufnr) == nil, bufnr)
end

--- Hold what is paused.
function M.refresh()
  for _, client in ipairs(vim.lsp.get_clients({ name = server.NAME })) do
    for bufnr in pairs(client.attached_buffers) do
      set(pause.reason(bufnr) == nil, bufnr)
    end
  end
end

M.clear = M.refresh

local DONE_AT_ONCE = {
  accept = function() return M.accept('all') end,
  accept_word = function() return M.accept('word') end,
  accept_line = function() return M.accept('line') end,
}

---@param action string
---@return string? keys that do it; nil where it has nothing to do
function M.keys(action)
  local done = DONE_AT_ONCE[action]
  if done then
    return done() and '' or nil
  elseif action == 'trigger' then
    return nil -- 0.12 asks by itself only
  end
  return ("<Cmd>lua require('warmline')[%q]()<CR>"):format(action)
end

local function cancel_overtaken(event)
  local data = event.data
  local client = data and vim.lsp.get_client_by_id(data.client_id)
  local begun = data and data.request.type == 'pending' and data.request.method == METHOD
  if not begun or not client or client.name ~= server.NAME then
    return
  end
  for id, request in pairs(client.requests) do
    local same = request.method == METHOD and request.bufnr == event.buf
    if same and id ~= data.request_id and request.type == 'pending' then
      client:cancel_request(id)
    end
  end
end

function M.enable()
  local group = vim.api.nvim_create_augroup('warmline.ghost', {})
  vim.api.nvim_create_autocmd('LspAttach', { group = group, callback = function() M.refresh() end })
  vim.api.nvim_create_autocmd('LspRequest', { group = group, callback = cancel_overtaken })
end

return M
