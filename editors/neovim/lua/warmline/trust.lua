--- `:Warmline trust`: the server asks, by name and digest, whether what the workspace brings may be loaded.

local notice = require('warmline.notice')
local questions = require('warmline.questions')
local server = require('warmline.server')

local M = {}

---@param bufnr integer
function M.ask(bufnr)
  local client = server.required(bufnr)
  if client == nil then
    return
  end
  questions.expecting(function(done)
    server.run(client, 'trust', { uri = vim.uri_from_bufnr(bufnr) }, function(err, result)
      done()
      if err then
        notice.refused(err)
      elseif #result.approved == 0 then
        notice.show('nothing was approved')
      else
        notice.show(('%d approved'):format(#result.approved))
      end
    end, bufnr)
  end)
end

return M
