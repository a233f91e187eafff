--- The state of a buffer in a few words, for the statusline.

local engine = require('warmline.engine')
local pause = require('warmline.pause')
local reports = require('warmline.reports')
local server = require('warmline.server')
local text = require('warmline.text')

local M = {}

local NAME_MOST = 24

-- What a person does something about; other codes are shown as they are.
local KINDS = {
  { '^trust%.unapproved', 'untrusted, :Warmline trust' },
  { '^config%.no_workspace', 'no variant' },
}

local OF_THE_SERVER = {
  missing = 'no server',
  old = 'server too old',
  starting = 'starting',
  restarting = 'restarting',
  stopped = 'server stopped',
}

---@param report table
---@return string
local function of_error(report)
  local code = text.line(report.error.code)
  if engine.is_down(code) then
    return 'engine down'
  end
  for _, kind in ipairs(KINDS) do
    if code:match(kind[1]) then
      return kind[2]
    end
  end
  return 'error ' .. code
end

--- Whether the last request found any of its prompt in memory.
local function warmth(report)
  return report.last ~= nil and report.last.reused_tokens > 0 and 'warm' or 'cold'
end

---@param report table
---@param percent integer?
---@return string
local function of_report(report, percent)
  local name = text.line(report.variant, NAME_MOST)
  if report.error ~= nil then
    return ('%s: %s'):format(name ~= '' and name or 'variant', of_error(report))
  elseif name == '' then
    return 'no variant'
  elseif percent ~= nil then
    return ('%s: loading %d%%'):format(name, percent)
  elseif report.state == 'loading' or report.state == 'switching' then
    return name .. ': loading'
  elseif report.state == 'stopping' then
    return name .. ': engine stops'
  end
  return ('%s: %s'):format(name, warmth(report))
end

--- The state of a buffer, as text; empty where Warmline has nothing to do.
---@param bufnr integer
---@return string
function M.words(bufnr)
  local client = server.client(bufnr)
  if client ~= nil then
    local why = pause.reason(bufnr)
    if why ~= nil then
      return 'paused (' .. why .. ')'
    end
    local report, percent = reports.of(client.id)
    return report and of_report(report, percent) or 'starting'
  end
  if vim.bo[bufnr].buftype ~= '' then
    return ''
  end
  local scheme = server.scheme(bufnr)
  if scheme ~= nil then
    return 'not for ' .. scheme .. ':'
  end
  return OF_THE_SERVER[server.now.state] or ''
end

--- The component, fit for a statusline expression that is evaluated again (`%{% … %}`).
---@return string
function M.component()
  local window = vim.g.statusline_winid
  local bufnr = window and vim.api.nvim_win_is_valid(window) and vim.api.nvim_win_get_buf(window) or 0
  local words = M.words(bufnr == 0 and vim.api.nvim_get_current_buf() or bufnr)
  return words == '' and '' or text.for_statusline('warmline ' .. words)
end

return M
