--- Where no suggestions are wanted for now: anywhere, in a file type, or in a buffer.

local reports = require('warmline.reports')

local M = {}

M.SCOPES = { 'all', 'filetype', 'buffer' }

local everywhere = false
local filetypes = {} ---@type table<string, boolean?>

--- Why nothing is suggested in a buffer; nil where suggestions are wanted.
---@param bufnr integer
---@return string?
function M.reason(bufnr)
  if everywhere then
    return 'all'
  elseif filetypes[vim.bo[bufnr].filetype] then
    return vim.bo[bufnr].filetype
  elseif vim.b[bufnr].warmline_paused then
    return 'buffer'
  end
end

---@param paused boolean
---@param scope string one of `SCOPES`
---@param bufnr integer
function M.set(paused, scope, bufnr)
  if scope == 'all' then
    everywhere = paused
  elseif scope == 'filetype' then
    filetypes[vim.bo[bufnr].filetype] = paused or nil
  else
    vim.b[bufnr].warmline_paused = paused or nil
  end
  reports.changed()
end

--- Suggest again wherever that was paused.
function M.resume_all()
  everywhere, filetypes = false, {}
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    vim.b[bufnr].warmline_paused = nil
  end
  reports.changed()
end

return M
