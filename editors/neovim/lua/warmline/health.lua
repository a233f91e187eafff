--- `:checkhealth warmline`.

local config = require('warmline.config')
local hover = require('warmline.hover')
local program = require('warmline.program')
local server = require('warmline.server')
local text = require('warmline.text')

local M = {}

local function neovim()
  if vim.fn.has('nvim-0.11') == 0 then
    vim.health.error('Neovim is older than 0.11', { 'Install Neovim 0.11 or newer' })
    return
  end
  vim.health.ok('Neovim ' .. tostring(vim.version()))
  local drawn = config.options.ghost.native and 'by vim.lsp.inline_completion' or 'by this plugin'
  vim.health.info(config.options.ghost.enabled and 'ghost text is drawn ' .. drawn or 'ghost text is off')
end

--- Tell whether the program is there and answers.
local function installed()
  local name = config.options.cmd[1]
  if vim.fn.executable(name) == 0 then
    vim.health.error(('`%s` is not there'):format(name), { 'Install Warmline, or set cmd in setup{}' })
    return false
  end
  local ok, done = pcall(function()
    return vim.system(program.command('--version'), { text = true, timeout = 10000 }):wait()
  end)
  local said = ok and text.line(done.stdout) or ''
  local version = vim.version.parse(said, { strict = false })
  if not version then
    vim.health.error(('`%s --version` does not name a version'):format(name), { 'It may be another program' })
    return false
  elseif not vim.version.ge(version, server.OLDEST) then
    vim.health.error(('%s is too old; this plugin needs %s'):format(said, server.OLDEST), { 'Update Warmline' })
    return false
  end
  vim.health.ok(('%s (%s)'):format(vim.trim(said), vim.fn.exepath(name)))
  return true
end

local function running()
  local clients = vim.lsp.get_clients({ name = server.NAME })
  if #clients == 0 then
    local what, action = server.trouble()
    vim.health.warn(what or 'no server runs', { action or 'Open a file of a workspace' })
    return
  end
  for _, client in ipairs(clients) do
    vim.health.ok(('a server runs for %s'):format(client.root_dir or 'files outside of workspaces'))
    local bufnr = next(client.attached_buffers)
    for _, line in ipairs(bufnr and hover.lines(bufnr) or {}) do
      vim.health.info(line)
    end
  end
end

local function doctor()
  local ok, done = pcall(function()
    local env = { NO_COLOR = '1', COLUMNS = '120' }
    return vim.system(program.command('doctor'), { text = true, env = env, timeout = 60000 }):wait()
  end)
  if not ok then
    vim.health.warn('`warmline doctor` could not be run')
    return
  end
  local report = done.code == 0 and vim.health.ok or vim.health.warn
  report('warmline doctor ended with ' .. done.code)
  for _, line in ipairs(text.lines(vim.trim(done.stdout or ''))) do
    vim.health.info(line)
  end
end

function M.check()
  vim.health.start('warmline')
  neovim()
  if installed() then
    running()
    vim.health.start('warmline doctor')
    doctor()
  end
end

return M
