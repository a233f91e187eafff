--- Tells the server which document has the focus: its report is about that one, and what is asked there is prefilled.

local reports = require('warmline.reports')
local server = require('warmline.server')

local M = {}

local function tell(bufnr)
  local client = server.client(bufnr)
  if client and client.initialized and bufnr == vim.api.nvim_get_current_buf() then
    client:notify('warmline/didFocus', vim.lsp.util.make_position_params(0, client.offset_encoding))
  end
  reports.changed()
end

function M.enable()
  vim.api.nvim_create_autocmd({ 'BufEnter', 'FocusGained', 'LspAttach' }, {
    group = vim.api.nvim_create_augroup('warmline.focus', {}),
    callback = function(event)
      tell(event.buf)
    end,
  })
end

return M
