--- The language server: is it there, is it new enough, and when it dies it is started again, more and more slowly.

local config = require('warmline.config')
local engine = require('warmline.engine')
local notice = require('warmline.notice')
local process = require('warmline.process')
local questions = require('warmline.questions')
local reports = require('warmline.reports')

local M = {}

M.NAME = 'warmline'
--- The oldest server whose commands and messages are those that this plugin knows.
M.OLDEST = '0.1.0'

local MOST_DEATHS = 5
--- In milliseconds: the first pause before a server that died is started again, and the longest; the life after which
--- earlier deaths do not count; how long a server may take to answer at all.
M.timing = { first_pause = 500, longest_pause = 30000, long_life = 60000, patience = 30000 }

---@alias warmline.ServerState 'idle'|'missing'|'old'|'starting'|'running'|'restarting'|'stopped'

---@type { state: warmline.ServerState, detail: string, deaths: integer }
M.now = { state = 'idle', detail = '', deaths = 0 }

local restart_timer ---@type uv.uv_timer_t?
local leaving = false

local function turn(state, detail)
  M.now.state, M.now.detail = state, detail or ''
  reports.changed()
end

--- What is wrong and what to do, in one line each; nil while all is well.
---@return string? what, string? action
function M.trouble()
  local program = config.options.cmd[1]
  local state, detail = M.now.state, M.now.detail
  if state == 'missing' then
    return ('the server `%s` is not there'):format(program), 'Install it, or set cmd in setup{}; then :Warmline restart'
  elseif state == 'old' then
    local what = ('the server `%s` is too old (%s; needs %s)'):format(program, detail, M.OLDEST)
    return what, 'Update it, then :Warmline restart'
  elseif state == 'restarting' then
    return ('the server ended (%s); it is started again'):format(detail), nil
  elseif state == 'stopped' then
    return ('the server does not stay (%s)'):format(detail), ':Warmline log says why, :Warmline restart tries again'
  end
end

local function tell()
  local what, action = M.trouble()
  if what then
    notice.warn(what, action)
  end
end

---@param this warmline.Process
---@param detail string how it ended
local function died(this, detail)
  if M.now.state == 'stopped' then
    return
  end
  if vim.uv.now() - this.begun >= M.timing.long_life then
    M.now.deaths = 0
  end
  M.now.deaths = M.now.deaths + 1
  if M.now.deaths >= MOST_DEATHS then
    turn('stopped', detail)
    vim.lsp.enable(M.NAME, false)
    tell()
    return
  end
  turn('restarting', detail)
  if M.now.deaths == 1 then
    tell()
  end
  if restart_timer then
    return -- several servers died, one for each workspace: all start again at once
  end
  local pause = math.min(M.timing.first_pause * 2 ^ (M.now.deaths - 1), M.timing.longest_pause)
  restart_timer = vim.defer_fn(function()
    restart_timer = nil
    if M.now.state == 'restarting' then
      M.start()
    end
  end, pause)
end

---@param this warmline.Process
---@param how string
local function ended(this, how)
  if this.client_id then
    reports.forget(this.client_id)
  end
  if leaving then
    return
  elseif not this.farewell then
    died(this, how)
  elseif #process.running == 0 and (M.now.state == 'running' or M.now.state == 'starting') then
    turn('idle')
  end
end

--- Start a process, as `cmd` of an LSP configuration.
local function spawn(dispatchers)
  local rpc = process.start(config.options.cmd, dispatchers, M.timing.patience, ended)
  if M.now.state ~= 'running' and M.now.state ~= 'restarting' then
    turn('starting')
  end
  return rpc
end

local function initialized(client)
  local this = process.of(client)
  this.client_id = client.id
  if vim.lsp.is_enabled and not vim.lsp.is_enabled(M.NAME) then
    -- Disabled while it started: Neovim ends those only that have begun.
    this.farewell = true
    vim.schedule(function()
      client:stop()
    end)
    return
  end
  local info = client.server_info or {}
  local version = info.name == M.NAME and vim.version.parse(tostring(info.version)) or nil
  if version and vim.version.ge(version, M.OLDEST) then
    turn('running')
    return
  end
  this.farewell = true
  turn('old', info.name == M.NAME and 'version ' .. tostring(info.version) or 'it is another program')
  tell()
  vim.schedule(function()
    vim.lsp.enable(M.NAME, false)
  end)
end

--- Decide whether a buffer gets a server, and for which folder. Files of other machines are none that it could read.
local function root_dir(bufnr, on_dir)
  if M.scheme(bufnr) ~= nil then
    return
  end
  if vim.fn.executable(config.options.cmd[1]) == 0 then
    if M.now.state ~= 'missing' then
      turn('missing')
      tell()
    end
    return
  end
  on_dir(vim.fs.root(bufnr, '.warmline'))
end

--- The scheme of a buffer's name that is a URI of something else than a file; nil for a file.
---@param bufnr integer
---@return string?
function M.scheme(bufnr)
  local scheme = vim.api.nvim_buf_get_name(bufnr):match('^(%a[%w+.-]+)://')
  return scheme ~= 'file' and scheme or nil
end

--- Write the LSP configuration.
function M.configure()
  local handlers = questions.handlers()
  handlers['warmline/status'] = function(_, report, ctx)
    reports.received(ctx.client_id, report)
    local known = reports.of(ctx.client_id)
    engine.follow(ctx.client_id, known and known.error)
  end
  vim.lsp.config(M.NAME, {
    cmd = spawn,
    filetypes = config.options.filetypes,
    root_dir = root_dir,
    settings = { warmline = config.options.settings },
    handlers = handlers,
    on_init = initialized,
  })
  vim.api.nvim_create_autocmd('VimLeavePre', {
    group = vim.api.nvim_create_augroup('warmline.server', {}),
    callback = function()
      leaving = true
    end,
  })
end

--- Start the server for every buffer that is open, and for each that will be.
function M.start()
  vim.lsp.enable(M.NAME)
end

--- End the server and start it anew, whatever went before.
function M.restart()
  M.now.deaths = 0
  for _, each in ipairs(process.running) do
    each.farewell = true
  end
  vim.lsp.enable(M.NAME, false)
  turn('idle')
  M.start()
end

--- The server of a buffer; nil where none is attached.
---@param bufnr? integer
---@return vim.lsp.Client?
function M.client(bufnr)
  local client = vim.lsp.get_clients({ bufnr = bufnr or 0, name = M.NAME })[1]
  return client or nil
end

--- The server of a buffer, or of any other one; without any, the person is told why.
---@param bufnr? integer
---@return vim.lsp.Client?
function M.required(bufnr)
  local client = M.client(bufnr) or vim.lsp.get_clients({ name = M.NAME })[1]
  if client == nil then
    local what, action = M.trouble()
    notice.warn(what or 'no server is at work here', action or 'Open a file of a workspace')
  end
  return client
end

--- Run a command of the server.
---@param client vim.lsp.Client
---@param name string without `warmline.`
---@param arguments table
---@param done fun(err: lsp.ResponseError?, result: any)
---@param bufnr? integer whose changes the server is to know before
---@return integer? id of the request
function M.run(client, name, arguments, done, bufnr)
  local given = vim.tbl_isempty(arguments) and vim.empty_dict() or arguments
  local params = { command = 'warmline.' .. name, arguments = { given } }
  local sent, id = client:request('workspace/executeCommand', params, done, bufnr or vim.api.nvim_get_current_buf())
  if not sent then
    done({ code = 0, message = 'the server has gone' }, nil)
  end
  return id
end

return M
