--- Inline suggestions, by whatever draws them: ours or Neovim's own.

local config = require('warmline.config')
local pause = require('warmline.pause')

local M = {}

local function drawer()
  return require(config.options.ghost.native and 'warmline.native' or 'warmline.ghost')
end

---@param part 'all'|'line'|'word'
---@return boolean done
function M.accept(part)
  return drawer().accept(part)
end

---@param step integer
---@return boolean done
function M.cycle(step)
  return drawer().cycle(step)
end

function M.dismiss()
  drawer().dismiss()
end

function M.trigger()
  local by = drawer()
  if by.trigger then
    by.trigger()
  end
end

---@param action string
---@return string?
function M.keys(action)
  return config.options.ghost.enabled and drawer().keys(action) or nil
end

--- Pause or resume; what is shown goes or comes at once.
---@param paused boolean
---@param scope string one of `pause.SCOPES`
---@param bufnr integer
function M.set_paused(paused, scope, bufnr)
  pause.set(paused, scope, bufnr)
  drawer().refresh()
end

function M.resume_all()
  pause.resume_all()
  drawer().refresh()
end

function M.enable()
  if config.options.ghost.enabled then
    drawer().enable()
  end
end

return M
