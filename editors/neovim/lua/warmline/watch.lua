--- Watches a workspace's `.warmline` folder, so that the statusline tells of a change by other programs at once.
--- Neovim's own watchers of whole workspaces are off on Linux, since they cost too much there.

local server = require('warmline.server')

local M = {}

local SETTLED_MS = 100

---@class warmline.Watch
---@field handles table<string, uv.uv_fs_event_t> by folder
---@field timer uv.uv_timer_t

local watches = {} ---@type table<integer, warmline.Watch> by client

local function folders(root)
  local top = vim.fs.joinpath(root, '.warmline')
  local variants = vim.fs.joinpath(top, 'variants')
  local found = { top, variants }
  for name, kind in vim.fs.dir(variants) do
    if kind == 'directory' then
      table.insert(found, vim.fs.joinpath(variants, name))
    end
  end
  return vim.tbl_filter(function(folder) return vim.fn.isdirectory(folder) == 1 end, found)
end

---@param client vim.lsp.Client
local function tell(client)
  if client:is_stopped() then
    return
  end
  local file = vim.fs.joinpath(client.root_dir, '.warmline', 'config.json')
  local change = { uri = vim.uri_from_fname(file), type = vim.lsp.protocol.FileChangeType.Changed }
  client:notify('workspace/didChangeWatchedFiles', { changes = { change } })
end

---@param client vim.lsp.Client
---@param watch warmline.Watch
local function look(client, watch)
  for _, folder in ipairs(folders(client.root_dir)) do
    local handle = not watch.handles[folder] and vim.uv.new_fs_event() or nil
    if handle then
      watch.handles[folder] = handle
      handle:start(folder, {}, function()
        -- Programs write a file in several steps: one look after the last of them.
        watch.timer:start(SETTLED_MS, 0, vim.schedule_wrap(function()
          if watches[client.id] == watch then
            look(client, watch)
            tell(client)
          end
        end))
      end)
    end
  end
end

---@param client_id integer
local function stop(client_id)
  local watch = watches[client_id]
  if watch then
    watches[client_id] = nil
    watch.timer:close()
    for _, handle in pairs(watch.handles) do
      handle:close()
    end
  end
end

function M.enable()
  local group = vim.api.nvim_create_augroup('warmline.watch', {})
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == server.NAME and client.root_dir and not watches[client.id] then
        local watch = { handles = {}, timer = assert(vim.uv.new_timer()) }
        watches[client.id] = watch
        look(client, watch)
      end
    end,
  })
  vim.api.nvim_create_autocmd('LspDetach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client == nil or client:is_stopped() then
        stop(event.data.client_id)
      end
    end,
  })
end

return M
