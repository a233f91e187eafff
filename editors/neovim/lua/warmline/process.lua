--- The processes of the language server, one for each workspace: started, and known by how each ended.

local M = {}

---@class warmline.Process
---@field rpc vim.lsp.rpc.PublicClient
---@field begun integer in milliseconds of `vim.uv.now()`
---@field farewell boolean Neovim itself asked it to leave
---@field client_id integer? once it is initialized

M.running = {} ---@type warmline.Process[]

--- Note when Neovim asks the process to leave: such an end is none to be mended.
local function noting_farewells(rpc, this)
  return vim.tbl_extend('force', {}, rpc, {
    request = function(method, ...)
      this.farewell = this.farewell or method == 'shutdown'
      return rpc.request(method, ...)
    end,
    terminate = function()
      this.farewell = true
      return rpc.terminate()
    end,
  })
end

--- Start one. Neovim is told that it left in good order however it ends: the person gets one message, which says what
--- happens next, and not a second one.
---@param command string[]
---@param dispatchers vim.lsp.rpc.Dispatchers
---@param patience integer milliseconds in which it has to be initialized, or it is ended
---@param ended fun(this: warmline.Process, how: string)
---@return vim.lsp.rpc.PublicClient
function M.start(command, dispatchers, patience, ended)
  local this = { begun = vim.uv.now(), farewell = false }
  local silent = false
  local rpc = vim.lsp.rpc.start(command, vim.tbl_extend('force', {}, dispatchers, {
    on_exit = function(code, signal)
      dispatchers.on_exit(0, 0)
      vim.schedule(function()
        M.running = vim.tbl_filter(function(each) return each ~= this end, M.running)
        ended(this, silent and 'no answer' or (signal ~= 0 and 'signal ' .. signal or 'exit code ' .. code))
      end)
    end,
  }))
  this.rpc = noting_farewells(rpc, this)
  table.insert(M.running, this)
  vim.defer_fn(function()
    if not this.client_id and not rpc.is_closing() then
      silent = true
      rpc.terminate()
    end
  end, patience)
  return this.rpc
end

--- The process that a client talks to.
---@param client vim.lsp.Client
---@return warmline.Process
function M.of(client)
  local found = vim.iter(M.running):find(function(each)
    return each.rpc == client.rpc
  end)
  return assert(found, 'the client has a process')
end

return M
