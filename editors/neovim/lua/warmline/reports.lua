--- What each server last said of itself: the variant that answers, where it came from, how the last request went.

local M = {}

local latest = {} ---@type table<integer, table>
local loading = {} ---@type table<integer, integer?>

--- Tell whoever shows it that something changed.
function M.changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'WarmlineStatus', modeline = false })
  vim.cmd.redrawstatus({ bang = true })
end

--- What JSON has as null is not there.
local function without_nulls(value)
  if type(value) ~= 'table' then
    return value
  end
  local result = {}
  for name, each in pairs(value) do
    if each ~= vim.NIL then
      result[name] = without_nulls(each)
    end
  end
  return result
end

---@param client_id integer
---@param report any the parameters of `warmline/status`
function M.received(client_id, report)
  if type(report) == 'table' then
    latest[client_id] = without_nulls(report)
    M.changed()
  end
end

---@param client_id integer
---@param percent integer? how far a model is loaded; nil when none is being loaded
function M.progressed(client_id, percent)
  loading[client_id] = percent
  M.changed()
end

---@param client_id integer
---@return table? report
---@return integer? percent
function M.of(client_id)
  return latest[client_id], loading[client_id]
end

---@param client_id integer
function M.forget(client_id)
  latest[client_id], loading[client_id] = nil, nil
  M.changed()
end

return M
