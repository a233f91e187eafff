--- The float of `:Warmline status`: what answers here, where each part came from, how the last request went.

local pause = require('warmline.pause')
local reports = require('warmline.reports')
local server = require('warmline.server')
local text = require('warmline.text')

local M = {}

---@alias warmline.Rows { [1]: string, [2]: string }[]

local function path(file)
  return vim.fn.fnamemodify(text.line(file), ':~:.')
end

local function joined(...)
  local parts = vim.tbl_filter(function(part) return part ~= '' end, { ... })
  return table.concat(parts, ' · ')
end

local function from(source)
  return (source or '') ~= '' and 'from ' .. path(source) or ''
end

local function adapter_rows(rows, number, adapter)
  local verified = adapter.verified and 'made for this base' or 'unverified: not known to be made for this base'
  local name = text.line(adapter.name)
  local scale, trust = 'scale ' .. text.line(adapter.scale), 'trust: ' .. text.line(adapter.trust)
  table.insert(rows, { 'Adapter ' .. number, joined(name, scale, trust) })
  table.insert(rows, { '', joined(text.short(adapter.digest), verified) })
  local effect = adapter.effect and ('proven: moves a logit by up to %.3g'):format(adapter.effect) or ''
  local last = joined(effect, from(adapter.source))
  if last ~= '' then
    table.insert(rows, { '', last })
  end
end

local function error_rows(rows, error)
  table.insert(rows, { 'Error', text.line(error.code) .. ': ' .. text.line(error.message) })
  if (error.remedy or '') ~= '' then
    table.insert(rows, { 'Do', text.line(error.remedy) })
  end
  if (error.file or '') ~= '' then
    table.insert(rows, { 'Where', joined(path(error.file), text.line(error.field or '')) })
  end
end

--- All that a report says, one row each.
---@param report table
---@return warmline.Rows
function M.rows(report)
  local rows = {} ---@type warmline.Rows
  local name = text.line(report.variant)
  table.insert(rows, { 'Variant', name ~= '' and name or 'none: no workspace selects one here' })
  if report.error then
    error_rows(rows, report.error)
  end
  if (report.identity or '') ~= '' then
    table.insert(rows, { 'Identity', text.short(report.identity) })
  end
  if (report.chat or '') ~= '' then
    table.insert(rows, { 'Chat', 'works with ' .. text.line(report.chat) })
  end
  local base = report.base
  if base then
    local merged = base.merged_from and 'merged from ' .. text.line(base.merged_from) or ''
    local trust = 'trust: ' .. text.line(base.trust)
    table.insert(rows, { 'Base', joined(text.line(base.name), text.short(base.digest), trust, merged) })
    if from(base.source) ~= '' then
      table.insert(rows, { '', from(base.source) })
    end
    for number, adapter in ipairs(report.adapters or {}) do
      adapter_rows(rows, number, adapter)
    end
    if #(report.adapters or {}) == 0 then
      table.insert(rows, { 'Adapters', 'none' })
    end
  end
  if report.backend then
    table.insert(rows, { 'Backend', text.line(report.backend.name) .. ' ' .. text.line(report.backend.version) })
  end
  if report.context then
    local clamped = report.context.clamped and " (clamped to the base's)" or ''
    table.insert(rows, { 'Context', report.context.n_ctx .. ' tokens' .. clamped })
  end
  local last = report.last
  if last then
    table.insert(rows, { 'Warm', text.line(last.warmth) })
    local times = ('first token %.0f ms, %.0f ms in all'):format(last.ttft_ms, last.total_ms)
    local reused = ('%d of %d tokens reused'):format(last.reused_tokens, last.prompt_tokens)
    table.insert(rows, { 'Last', joined(times, reused) })
  end
  if report.suggestion then
    table.insert(rows, { 'Suggestion', text.line(report.suggestion) })
  end
  return rows
end

local function most_columns()
  return math.max(vim.o.columns - 4, 20)
end

--- What there is to say of a buffer, whatever state the server is in.
---@param bufnr integer
---@return string[] lines
function M.lines(bufnr)
  local rows = {} ---@type warmline.Rows
  local client = server.client(bufnr)
  local report = client and reports.of(client.id)
  local what, action = server.trouble()
  local scheme = server.scheme(bufnr)
  if client == nil and scheme then
    table.insert(rows, { 'Server', 'not for ' .. scheme .. ': files, which are not on this machine' })
  elseif client == nil then
    local idle = server.now.state == 'idle'
    table.insert(rows, { 'Server', what or (idle and 'not at work for this buffer' or server.now.state) })
    if action then
      table.insert(rows, { 'Do', action })
    end
  else
    local why = pause.reason(bufnr)
    if why then
      table.insert(rows, { 'Paused', why .. ': :Warmline resume suggests again' })
    end
    vim.list_extend(rows, report and M.rows(report) or { { 'Server', 'starting' } })
  end
  return vim.tbl_map(function(row)
    return (('%-11s %s'):format(row[1], row[2]):gsub('[\r\n]', ' '))
  end, rows)
end

--- What is said may change while it is read: soon after a file was opened its model is still being loaded.
local function follow(bufnr, float, window)
  vim.api.nvim_create_autocmd('User', {
    group = vim.api.nvim_create_augroup('warmline.hover', {}),
    pattern = 'WarmlineStatus',
    callback = function()
      local there = vim.api.nvim_win_is_valid(window) and vim.api.nvim_win_get_buf(window) == float
      if not there or not vim.api.nvim_buf_is_valid(bufnr) then
        return true -- which removes this
      end
      local lines = M.lines(bufnr)
      local widths = vim.tbl_map(vim.fn.strdisplaywidth, lines)
      vim.bo[float].modifiable = true
      vim.api.nvim_buf_set_lines(float, 0, -1, false, lines)
      vim.bo[float].modifiable = false
      vim.api.nvim_win_set_config(window, { width = math.min(math.max(unpack(widths)), most_columns()) })
      local height = vim.api.nvim_win_text_height(window, {}).all
      vim.api.nvim_win_set_config(window, { height = math.min(height, math.max(vim.o.lines - 4, 1)) })
    end,
  })
end

--- Show it beside the cursor; a second time goes into the float.
function M.open()
  local bufnr = require('warmline.chat').subject(vim.api.nvim_get_current_buf())
  local shown = vim.fn.win_getid()
  local float, window = vim.lsp.util.open_floating_preview(M.lines(bufnr), 'plaintext', {
    border = 'rounded',
    title = ' Warmline ',
    focus_id = 'warmline',
    max_width = most_columns(),
  })
  if vim.fn.win_getid() == shown then -- else it was there
    follow(bufnr, float, window)
  end
end

return M
