--- The command-line program that the server belongs to: `:Warmline doctor`, and what the health check asks.

local config = require('warmline.config')
local text = require('warmline.text')

local M = {}

--- The command line of another command of the program.
---@param ... string
---@return string[]
function M.command(...)
  local command = vim.deepcopy(config.options.cmd)
  if command[#command] == 'lsp' then
    table.remove(command)
  end
  return vim.list_extend(command, { ... })
end

--- Show what `warmline doctor` finds, in a split.
function M.doctor()
  if vim.fn.executable(config.options.cmd[1]) == 0 then
    require('warmline.notice').warn(('`%s` is not there'):format(config.options.cmd[1]), ':checkhealth warmline')
    return
  end
  local bufnr = vim.api.nvim_create_buf(false, true)
  vim.bo[bufnr].bufhidden = 'wipe'
  vim.api.nvim_buf_set_name(bufnr, 'warmline://doctor/' .. bufnr)
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, true, { 'warmline doctor is looking…' })
  vim.api.nvim_open_win(bufnr, true, { split = 'below', win = 0 })
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = bufnr, desc = 'Warmline: close' })
  local env = { NO_COLOR = '1', COLUMNS = tostring(vim.api.nvim_win_get_width(0)) }
  vim.system(M.command('doctor'), { env = env, text = true }, function(done)
    vim.schedule(function()
      if vim.api.nvim_buf_is_valid(bufnr) then
        local said = vim.trim(done.stdout or '') ~= '' and done.stdout or done.stderr
        vim.api.nvim_buf_set_lines(bufnr, 0, -1, true, text.lines(said))
        vim.bo[bufnr].modifiable = false
      end
    end)
  end)
end

return M
