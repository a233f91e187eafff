--- Ghost text of our own, for Neovim 0.11: asks, shows, and takes what is accepted.
---
--- What is typed along a suggestion asks nothing. A request that was overtaken is cancelled. When to ask the model is
--- the server's decision, so a request goes out at each change.

local draw = require('warmline.draw')
local pause = require('warmline.pause')
local server = require('warmline.server')
local suggestion = require('warmline.suggestion')

local M = {}

local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2

---@alias warmline.Place { bufnr: integer, row: integer, col: integer, tick: integer }

local shown = nil ---@type { candidates: warmline.Suggestion[], index: integer, invoked: boolean }?
local pending = nil ---@type { client: vim.lsp.Client, id: integer? }?
local asked = nil ---@type warmline.Place? where the latest request was made, or the suggestion was put away

---@return warmline.Place
local function here()
  local bufnr = vim.api.nvim_get_current_buf()
  local cursor = vim.api.nvim_win_get_cursor(0)
  return { bufnr = bufnr, row = cursor[1] - 1, col = cursor[2], tick = vim.api.nvim_buf_get_changedtick(bufnr) }
end

local function hide()
  if shown then
    draw.clear(shown.candidates[1].bufnr)
    shown = nil
  end
end

local function cancel()
  if pending then
    if pending.id and not pending.client:is_stopped() then
      pending.client:cancel_request(pending.id)
    end
    pending = nil
  end
end

--- What is left of the candidate that is shown.
---@return string?
local function rest(place)
  return shown and suggestion.rest(shown.candidates[shown.index], place)
end

--- Show the candidate if it holds here; tell whether it does.
local function redraw(place)
  local left = rest(place)
  if shown and left then
    draw.show(place, left, #shown.candidates > 1 and ('%d/%d'):format(shown.index, #shown.candidates) or nil)
  end
  return left ~= nil
end

--- Whether an entry of the completion menu is selected: what it inserts is not what was suggested for.
local function menu_rules()
  return vim.fn.pumvisible() == 1 and vim.fn.complete_info({ 'selected' }).selected ~= -1
end

local function typing()
  return vim.api.nvim_get_mode().mode:sub(1, 1) == 'i'
end

local ask ---@type fun(place: warmline.Place, kind: integer, again: boolean?)

---@param request table
---@param place warmline.Place
---@param items lsp.InlineCompletionItem[]
---@param again boolean whether the server may be asked once more
local function answered(request, place, items, invoked, again)
  if pending ~= request then
    return
  end
  pending = nil
  if not typing() or not vim.deep_equal(here(), place) or menu_rules() then
    return
  end
  local before = rest(place)
  local candidates = {} ---@type warmline.Suggestion[]
  for _, item in ipairs(items) do
    local candidate = suggestion.read(item, request.client, place)
    if candidate and suggestion.rest(candidate, place) then
      table.insert(candidates, candidate)
    end
  end
  if #candidates == 0 then
    return
  end
  hide()
  shown = { candidates = candidates, index = 1, invoked = invoked }
  if invoked and again and #candidates == 1 then
    -- The server gives at once what it has, and the others to who asks while it makes them.
    ask(place, INVOKED, false)
  end
  if invoked and before and suggestion.rest(candidates[1], place) == before and #candidates > 1 then
    shown.index = 2 -- the first one stood there already, and another one was asked for
  end
  redraw(place)
end

---@param place warmline.Place
---@param kind integer one of LSP's `InlineCompletionTriggerKind`
---@param again boolean? false when it is the second question about the same
function ask(place, kind, again)
  cancel()
  local client = server.client(place.bufnr)
  if client == nil or pause.reason(place.bufnr) then
    asked = nil
    return
  end
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  local request = { client = client }
  pending = request
  -- The buffer's number, not 0: with it Neovim sends the changes first that it still holds back.
  local sent, id = client:request(METHOD, params, function(_, result)
    local items = type(result) == 'table' and (result.items or result) or {}
    answered(request, place, items, kind == INVOKED, again ~= false)
  end, place.bufnr)
  request.id = id
  if not sent then
    pending = nil
  end
end

--- Look what to show after a change or a move; typing along asks nothing.
function M.refresh()
  local place = here()
  if not typing() then
    return
  end
  if menu_rules() or pause.reason(place.bufnr) then
    M.clear()
    return
  end
  if redraw(place) then
    asked = place
    return
  end
  hide()
  if vim.deep_equal(asked, place) then
    return
  end
  asked = place
  ask(place, AUTOMATIC)
end

--- Forget what is shown and asked.
function M.clear()
  cancel()
  hide()
  asked = nil
end

--- Put the suggestion away until something changes.
function M.dismiss()
  cancel()
  hide()
  asked = here()
end

--- Whether there is something to accept.
---@return boolean
function M.visible()
  return rest(here()) ~= nil
end

local function break_undo()
  vim.cmd('let &g:undolevels = &g:undolevels')
end

--- Insert what is shown, or the beginning of it. It is one step of undo, and so is what is typed after it.
---@param part 'all'|'line'|'word'
---@return boolean done
function M.accept(part)
  local place = here()
  local left = rest(place)
  if shown == nil or left == nil then
    return false
  end
  local candidate = shown.candidates[shown.index]
  local taken = suggestion.part(left, part)
  local lines = vim.split(taken, '\n', { plain = true })
  break_undo()
  vim.api.nvim_buf_set_text(place.bufnr, place.row, place.col, place.row, place.col, lines)
  local row = place.row + #lines - 1
  vim.api.nvim_win_set_cursor(0, { row + 1, #lines[#lines] + (#lines == 1 and place.col or 0) })
  break_undo()
  if taken == left then
    hide()
    cancel()
    local client = vim.lsp.get_client_by_id(candidate.client_id)
    if client and candidate.command then
      client:exec_cmd(candidate.command, { bufnr = place.bufnr }, function() end)
    end
    return true
  end
  -- What is left goes on from where the cursor is now.
  local now = here()
  local remaining = { row = now.row, start = now.col, asked = now.col, text = left:sub(#taken + 1) }
  shown = { candidates = { vim.tbl_extend('force', candidate, remaining) }, index = 1, invoked = false }
  redraw(now)
  asked = now
  return true
end

--- Show another candidate. The first time the server is asked for more than the one that it gives by itself.
---@param step integer
---@return boolean done
function M.cycle(step)
  local place = here()
  if shown == nil or rest(place) == nil then
    return false
  end
  if #shown.candidates == 1 and not shown.invoked then
    asked = place
    ask(place, INVOKED)
    return true
  end
  shown.index = (shown.index - 1 + step) % #shown.candidates + 1
  redraw(place)
  return true
end

--- Ask for suggestions here, whatever speaks against one that comes by itself.
function M.trigger()
  local place = here()
  hide()
  asked = place
  ask(place, INVOKED)
end

---@param action string
---@return string? keys that do it; nil where it has nothing to do
function M.keys(action)
  if action ~= 'trigger' and not M.visible() then
    return nil
  end
  return ("<Cmd>lua require('warmline')[%q]()<CR>"):format(action)
end

--- Watch what is typed.
function M.enable()
  local group = vim.api.nvim_create_augroup('warmline.ghost', {})
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, callback = callback })
  end
  on({ 'InsertEnter', 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'LspAttach' }, M.refresh)
  on({ 'InsertLeave', 'BufLeave', 'LspDetach' }, M.clear)
end

return M
