--- The process that holds the models: when it is down, and telling so once until it is up again.

local notice = require('warmline.notice')

local M = {}

-- Errors of the process itself; other errors of a backend are about what it was given.
local DOWN = {
  ['backend.crashed'] = true,
  ['backend.import'] = true,
  ['backend.protocol'] = true,
  ['backend.runtime_folder'] = true,
  ['backend.stopping'] = true,
}

local told = {} ---@type table<integer, boolean?> by client

---@param code string
---@return boolean
function M.is_down(code)
  return DOWN[code] == true or vim.startswith(code, 'backend.host_')
end

--- Take a report's error. The server tells of what is wrong with a variant; of this, the plugin does.
---@param client_id integer
---@param error { code: string, message: string }?
function M.follow(client_id, error)
  local down = error ~= nil and M.is_down(tostring(error.code))
  if down and not told[client_id] then
    notice.warn('the engine is down: ' .. tostring(error.message), ':Warmline status says more')
  end
  told[client_id] = down or nil
end

return M
