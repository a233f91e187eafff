--- Messages to the person: one line, and the one thing to do about it.

local text = require('warmline.text')

local M = {}

-- Columns that Neovim needs besides, before a message makes it ask for ENTER in the middle of typing.
local MARGIN = 14
local LEAST = 40

--- Show one line; what does not fit is cut out of `what`, never out of `action`.
---@param what any text of servers and artifacts is data
---@param action? string what to do, at most one thing
---@param level? integer one of `vim.log.levels`
function M.show(what, action, level)
  local room = math.max(vim.o.columns * math.max(vim.o.cmdheight, 1) - MARGIN, LEAST)
  local tail = action and ' ' .. action or ''
  local head = text.line('Warmline: ' .. tostring(what):gsub('^Warmline: ', ''), math.max(room - #tail, LEAST))
  vim.notify(head .. tail, level or vim.log.levels.INFO)
end

---@param what any
---@param action? string
function M.warn(what, action)
  M.show(what, action, vim.log.levels.WARN)
end

--- Show an error that a request was answered with.
---@param err { message: string }
function M.refused(err)
  M.show(err.message or 'the server gave no reason', nil, vim.log.levels.ERROR)
end

return M
