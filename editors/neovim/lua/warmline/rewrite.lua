--- `:Warmline edit` and `fix`: the server's edit as a diff to be looked at. Nothing is applied unasked.

local notice = require('warmline.notice')
local server = require('warmline.server')
local text = require('warmline.text')

local M = {}

local REASONS = {
  unchanged = 'it would write the same code again',
  ['no-code'] = 'its answer holds no code',
  length = 'its answer was cut short',
  ['document-changed'] = 'the text was changed meanwhile',
}

--- The edits of a buffer in an edit of the server.
local function edits_for(bufnr, edit)
  local uri = vim.uri_from_bufnr(bufnr)
  for _, change in ipairs(edit.documentChanges or {}) do
    if change.textDocument and change.textDocument.uri == uri then
      return change.edits
    end
  end
  return (edit.changes or {})[uri] or {}
end

--- What a buffer would be, as a unified diff.
---@return string[]
local function diff(bufnr, edit, encoding)
  local lines = vim.api.nvim_buf_get_lines(bufnr, 0, -1, true)
  local scratch = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(scratch, 0, -1, true, lines)
  vim.lsp.util.apply_text_edits(vim.deepcopy(edits_for(bufnr, edit)), scratch, encoding)
  local changed = vim.api.nvim_buf_get_lines(scratch, 0, -1, true)
  vim.api.nvim_buf_delete(scratch, { force = true })
  local function joined(all) return table.concat(all, '\n') .. '\n' end
  return text.lines(vim.diff(joined(lines), joined(changed), { ctxlen = 3 }) --[[@as string]])
end

local function refuse(result)
  local why = REASONS[result.reason] or text.line(result.reason)
  notice.warn(('%s changes nothing: %s'):format(text.line(result.variant), why))
end

--- Neovim's own check of versions passes over an edit for version 0, which is what it opens a document with.
---@param tick integer the buffer's `changedtick` that the edit is for
local function preview(bufnr, result, client, tick)
  local pane = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(pane, 0, -1, true, diff(bufnr, result.edit, client.offset_encoding))
  vim.bo[pane].bufhidden, vim.bo[pane].modifiable, vim.bo[pane].filetype = 'wipe', false, 'diff'
  local window = vim.api.nvim_open_win(pane, true, { split = 'below', win = 0 })
  local by = text.line(result.variant)
  vim.wo[window].winbar = text.for_statusline(('Warmline, by %s: <CR> apply · q discard'):format(by))
  local function close()
    vim.api.nvim_win_close(window, true)
  end
  vim.keymap.set('n', '<CR>', function()
    close()
    if vim.api.nvim_buf_get_changedtick(bufnr) == tick then
      vim.lsp.util.apply_workspace_edit(result.edit, client.offset_encoding)
    else
      refuse({ variant = result.variant, reason = 'document-changed' })
    end
  end, { buffer = pane, nowait = true, desc = 'Warmline: apply' })
  vim.keymap.set('n', 'q', close, { buffer = pane, nowait = true, desc = 'Warmline: discard' })
end

--- Have a part of a buffer written anew.
---@param command 'edit'|'fix'
---@param bufnr integer
---@param range lsp.Range
---@param more table what else the command takes
function M.run(command, bufnr, range, more)
  local client = server.required(bufnr)
  if client == nil then
    return
  end
  notice.show('the variant writes; the diff is shown when it is done')
  local tick = vim.api.nvim_buf_get_changedtick(bufnr)
  local arguments = vim.tbl_extend('force', { uri = vim.uri_from_bufnr(bufnr), range = range }, more)
  server.run(client, command, arguments, function(err, result)
    if err then
      notice.refused(err)
    elseif type(result.edit) ~= 'table' then
      refuse(result)
    elseif vim.api.nvim_buf_is_valid(bufnr) then
      preview(bufnr, result, client, tick)
    end
  end, bufnr)
end

return M
