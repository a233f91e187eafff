-- The init.lua behind the pictures. Neovim 0.11 knows no inline completion, so the second part draws it as ghost text.

-- As `warmline lsp` on a terminal advises.
vim.lsp.config('warmline', {
  cmd = { 'warmline', 'lsp' },
  root_markers = { '.warmline' },
})
vim.lsp.enable('warmline')

-- How it looks.
vim.o.background = 'dark'
vim.o.termguicolors = true
vim.o.number = true
vim.o.showmode = false
vim.o.ruler = false
vim.o.swapfile = false
vim.o.shadafile = 'NONE'
vim.o.statusline = " %f %m%=%{get(g:, 'warmline', '')} "
vim.o.winborder = 'solid'

-- The status line tells which variant answers, from which adapters, and how warm the last request was.
vim.lsp.handlers['warmline/status'] = function(_, status)
  local parts = { 'warmline: ' .. (status.variant ~= '' and status.variant or status.state) }
  for _, adapter in ipairs(status.adapters) do
    table.insert(parts, ('%s ×%s'):format(adapter.name, adapter.scale))
  end
  if type(status.last) == 'table' then
    local last = status.last
    local reused = ('%d of %d tokens reused'):format(last.reused_tokens, last.prompt_tokens)
    table.insert(parts, ('%s, first token %.0f ms'):format(reused, last.ttft_ms))
  end
  vim.g.warmline = table.concat(parts, ' · ')
  vim.cmd.redrawstatus({ bang = true })
end

vim.api.nvim_create_autocmd('LspAttach', {
  callback = function()
    vim.g.warmline = vim.g.warmline or 'warmline: attached'
  end,
})

-- Ghost text: asked for after each key, drawn at the cursor, taken with Tab.
local namespace = vim.api.nvim_create_namespace('ghost')
local shown, pending = nil, nil

local function clear()
  if pending then
    pending.client:cancel_request(pending.id)
  end
  shown, pending = nil, nil
  vim.api.nvim_buf_clear_namespace(0, namespace, 0, -1)
end

local function draw(item, client, buffer, row, column)
  -- The item repeats what is typed from its range's start on; what is left of it stands after the cursor.
  local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, true)[1]
  local start = vim.str_byteindex(line, client.offset_encoding, item.range.start.character)
  local ghost = {}
  for _, text in ipairs(vim.split(item.insertText:sub(column - start + 1), '\n')) do
    table.insert(ghost, { { text, 'GhostText' } })
  end
  vim.api.nvim_buf_set_extmark(buffer, namespace, row, column, {
    virt_text = table.remove(ghost, 1),
    virt_text_pos = 'inline',
    virt_lines = ghost,
  })
  shown = { item = item, client = client }
end

local function ask()
  clear()
  local buffer = vim.api.nvim_get_current_buf()
  local client = vim.lsp.get_clients({ bufnr = buffer, name = 'warmline' })[1]
  if not client then
    return
  end
  local cursor = vim.api.nvim_win_get_cursor(0)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = 2 }
  local asked = { client = client }
  -- The real buffer number, not 0: with it Neovim first sends the changes that it still holds back.
  _, asked.id = client:request('textDocument/inlineCompletion', params, function(_, items)
    if pending == asked then
      pending = nil
    end
    local still = vim.api.nvim_get_current_buf() == buffer and vim.deep_equal(cursor, vim.api.nvim_win_get_cursor(0))
    if still and vim.fn.mode() == 'i' and items and items[1] then
      draw(items[1], client, buffer, cursor[1] - 1, cursor[2])
    end
  end, buffer)
  pending = asked
end

vim.api.nvim_set_hl(0, 'GhostText', { fg = 'NvimLightGrey4', ctermfg = 8, italic = true })
vim.api.nvim_create_autocmd({ 'InsertEnter', 'CursorMovedI' }, { callback = ask })
vim.api.nvim_create_autocmd('InsertLeave', { callback = clear })
vim.keymap.set('i', '<Tab>', function()
  if not shown then
    return '<Tab>'
  end
  local item, client = shown.item, shown.client
  local range, text, encoding = item.range, item.insertText, client.offset_encoding
  vim.schedule(function()
    clear()
    local after = vim.api.nvim_get_current_line():sub(vim.api.nvim_win_get_cursor(0)[2] + 1)
    vim.lsp.util.apply_text_edits({ { range = range, newText = text } }, vim.api.nvim_get_current_buf(), encoding)
    local last = range.start.line + select(2, text:gsub('\n', ''))
    local line = vim.api.nvim_buf_get_lines(0, last, last + 1, true)[1]
    vim.api.nvim_win_set_cursor(0, { last + 1, #line - #after })
    client:exec_cmd(item.command, { bufnr = vim.api.nvim_get_current_buf() })
  end)
  return ''
end, { expr = true })
