--- Choosing a variant. Choices made in a row go one after the other, and the last one wins.

local notice = require('warmline.notice')
local server = require('warmline.server')
local text = require('warmline.text')

local M = {}

local COMPLETION_MS = 500

local switching = false
local wanted = nil ---@type { name: string, bufnr: integer }?

local function uri_of(bufnr)
  return vim.bo[bufnr].buftype == '' and vim.uri_from_bufnr(bufnr) or nil
end

--- Select a variant by name for the workspace of a buffer.
---@param name string
---@param bufnr integer
function M.select(name, bufnr)
  wanted = { name = name, bufnr = bufnr }
  local client = server.required(bufnr)
  if client == nil or switching then
    return
  end
  switching = true
  local this = wanted
  wanted = nil
  server.run(client, 'selectVariant', { variant = this.name, uri = uri_of(this.bufnr) }, function(err, result)
    switching = false
    if wanted then
      M.select(wanted.name, wanted.bufnr)
    elseif err then
      notice.refused(err)
    elseif type(result) == 'table' then
      notice.show(('%s answers here'):format(text.line(result.variant)))
    end
  end, bufnr)
end

local function described(row)
  local adapters = vim.tbl_map(function(adapter)
    return ('%s@%s'):format(text.line(adapter.name), text.line(adapter.scale))
  end, type(row.adapters) == 'table' and row.adapters or {})
  local made_of = text.line(row.base) .. (#adapters > 0 and ' -> ' .. table.concat(adapters, ' + ') or '')
  local state = type(row.error) == 'table' and 'broken: ' .. text.line(row.error.message) or text.line(row.trust)
  return ('%s %-16s %s  [%s]'):format(row.selected and '*' or ' ', text.line(row.name), made_of, state)
end

--- Ask which variant shall answer; those of one base stand together.
---@param bufnr integer
function M.pick(bufnr)
  local client = server.required(bufnr)
  if client == nil then
    return
  end
  server.run(client, 'listVariants', { uri = uri_of(bufnr) }, function(err, rows)
    if err then
      notice.refused(err)
      return
    end
    table.sort(rows, function(a, b)
      local base_a, base_b = text.line(a.base), text.line(b.base)
      return base_a == base_b and a.name < b.name or base_a < base_b
    end)
    vim.ui.select(rows, { prompt = 'Warmline variant', kind = 'warmline', format_item = described }, function(row)
      if row then
        M.select(row.name, bufnr)
      end
    end)
  end, bufnr)
end

--- The names that can be selected, for the command line; none where the server does not answer soon.
---@param bufnr integer
---@return string[]
function M.names(bufnr)
  local client = server.client(bufnr)
  if client == nil then
    return {}
  end
  local arguments = { { uri = uri_of(bufnr) or '' } }
  local params = { command = 'warmline.listVariants', arguments = arguments }
  local answer = client:request_sync('workspace/executeCommand', params, COMPLETION_MS, bufnr)
  return vim.tbl_map(function(row)
    return text.line(row.name)
  end, answer and type(answer.result) == 'table' and answer.result or {})
end

return M
