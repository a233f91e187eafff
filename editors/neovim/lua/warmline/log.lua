--- `:Warmline log`: the engine's log, or Neovim's own of its language servers while no server is there to ask.

local notice = require('warmline.notice')
local server = require('warmline.server')

local M = {}

function M.open()
  local client = vim.lsp.get_clients({ name = server.NAME })[1]
  if client == nil then
    vim.cmd.split(vim.fn.fnameescape(vim.lsp.log.get_filename()))
    vim.cmd('normal! G')
    return
  end
  -- The server has it opened, in the window that has the focus.
  vim.cmd.split()
  local window = vim.api.nvim_get_current_win()
  server.run(client, 'showLog', {}, function(err, result)
    local shown = not err and result.shown == true
    if not shown and vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, false)
    end
    if err then
      notice.refused(err)
    end
  end)
end

return M
