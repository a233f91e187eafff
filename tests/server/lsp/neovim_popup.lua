-- Accepts one completion item in Neovim's own popup and writes what the buffer then holds. Run by test_lsp_neovim.py.
-- ITEM is the item as JSON, KEYS what is typed at the end of line ROW of the file.
local item = vim.json.decode(vim.env.ITEM)
local commands = {}

local function server()
  local closing = false
  return {
    request = function(method, params, answer)
      if method == 'initialize' then
        local provider = { executeCommandProvider = { commands = { 'warmline.accepted' } } }
        provider.completionProvider = vim.empty_dict()
        answer(nil, { capabilities = provider })
      elseif method == 'textDocument/completion' then
        answer(nil, { isIncomplete = true, items = { item } })
      else
        if method == 'workspace/executeCommand' then
          table.insert(commands, params.command)
        end
        answer(nil, vim.NIL)
      end
      return true, 1
    end,
    notify = function() end,
    is_closing = function() return closing end,
    terminate = function() closing = true end,
  }
end

vim.o.swapfile = false
vim.o.completeopt = vim.env.COMPLETEOPT
vim.bo.expandtab, vim.bo.shiftwidth = true, 4
local id = vim.lsp.start({ name = 'canned', cmd = server, root_dir = vim.fn.getcwd() })
vim.lsp.completion.enable(true, id, 0, {})
vim.api.nvim_win_set_cursor(0, { tonumber(vim.env.ROW), 0 })
vim.keymap.set('i', '<F5>', vim.lsp.completion.get)

local function press(keys)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), 't', false)
end

local function when(ready, next_step)
  local timer = assert(vim.uv.new_timer())
  timer:start(20, 20, vim.schedule_wrap(function()
    if ready() and not timer:is_closing() then
      timer:close()
      next_step()
    end
  end))
end

vim.defer_fn(function()
  press('A<F5>')
  when(function() return vim.fn.pumvisible() == 1 end, function()
    press((vim.env.KEYS or '') .. '<C-y>')
    when(function() return #commands > 0 end, function()
      local row, column = unpack(vim.api.nvim_win_get_cursor(0))
      local lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
      vim.fn.writefile({ vim.json.encode({ lines = lines, cursor = { row, column }, commands = commands }) }, vim.env.OUT)
      vim.cmd('qa!')
    end)
  end)
end, 100)
