--- `:Warmline`: its subcommands, their arguments and their completion.

local inline = require('warmline.inline')
local notice = require('warmline.notice')
local pause = require('warmline.pause')
local server = require('warmline.server')

local M = {}

---@class warmline.Invocation
---@field rest string what stands after the subcommand
---@field bufnr integer
---@field lines { first: integer, last: integer }? the range, from 1

---@param call warmline.Invocation
---@return lsp.Range
local function range_of(call)
  local lines = call.lines or { first = vim.fn.line('.'), last = vim.fn.line('.') }
  local last = vim.api.nvim_buf_get_lines(call.bufnr, lines.last - 1, lines.last, true)[1]
  local client = server.client(call.bufnr)
  local width = vim.str_utfindex(last, client and client.offset_encoding or 'utf-16')
  return { start = { line = lines.first - 1, character = 0 }, ['end'] = { line = lines.last - 1, character = width } }
end

---@param call warmline.Invocation
---@param command 'chat'|'explain'
---@return warmline.Question
local function question_of(call, command)
  local question = { command = command, message = call.rest ~= '' and call.rest or nil }
  if call.lines or command == 'explain' then
    local range = range_of(call)
    local name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(call.bufnr), ':t')
    question.uri, question.range = vim.uri_from_bufnr(call.bufnr), range
    question.about = ('%s, lines %d to %d'):format(name, range.start.line + 1, range['end'].line + 1)
  end
  return question
end

---@param call warmline.Invocation
---@param paused boolean
local function set_paused(call, paused)
  local scope = call.rest ~= '' and call.rest or 'all'
  if not vim.list_contains(pause.SCOPES, scope) then
    notice.warn(('there is no scope %q'):format(scope), 'Scopes: ' .. table.concat(pause.SCOPES, ', '))
  elseif not paused and call.rest == '' then
    inline.resume_all()
  else
    inline.set_paused(paused, scope, call.bufnr)
  end
end

--- What other tools say of the lines.
---@param call warmline.Invocation
---@return string[]
local function diagnostics(call)
  local range, said = range_of(call), {}
  for _, each in ipairs(vim.diagnostic.get(call.bufnr)) do
    if each.lnum >= range.start.line and each.lnum <= range['end'].line and #said < 20 then
      table.insert(said, each.message)
    end
  end
  return said
end

---@type table<string, fun(call: warmline.Invocation)>
local SUBCOMMANDS = {
  status = function()
    require('warmline.hover').open()
  end,
  variant = function(call)
    local variants = require('warmline.variants')
    if call.rest ~= '' then
      variants.select(call.rest, call.bufnr)
    else
      variants.pick(call.bufnr)
    end
  end,
  chat = function(call)
    local question = question_of(call, 'chat')
    if question.message == nil and question.range == nil then
      require('warmline.chat').open()
    elseif question.message ~= nil then
      require('warmline.chat').open(question)
    else
      vim.ui.input({ prompt = 'Warmline: ' }, function(message)
        if message and vim.trim(message) ~= '' then
          question.message = message
          require('warmline.chat').open(question)
        end
      end)
    end
  end,
  explain = function(call)
    require('warmline.chat').open(question_of(call, 'explain'))
  end,
  edit = function(call)
    local function run(instruction)
      if instruction and vim.trim(instruction) ~= '' then
        require('warmline.rewrite').run('edit', call.bufnr, range_of(call), { instruction = instruction })
      end
    end
    if call.rest ~= '' then
      run(call.rest)
    else
      vim.ui.input({ prompt = 'Warmline, change these lines: ' }, run)
    end
  end,
  fix = function(call)
    require('warmline.rewrite').run('fix', call.bufnr, range_of(call), { diagnostics = diagnostics(call) })
  end,
  doctor = function()
    require('warmline.program').doctor()
  end,
  trust = function(call)
    require('warmline.trust').ask(call.bufnr)
  end,
  log = function()
    require('warmline.log').open()
  end,
  pause = function(call)
    set_paused(call, true)
  end,
  resume = function(call)
    set_paused(call, false)
  end,
  restart = function()
    server.restart()
  end,
}

local function names()
  local all = vim.tbl_keys(SUBCOMMANDS)
  table.sort(all)
  return all
end

local function run(given)
  local name, rest = given.args:match('^(%S*)%s*(.*)$')
  local subcommand = SUBCOMMANDS[name]
  if subcommand == nil then
    notice.warn(('there is no :Warmline %s'):format(name), 'There are: ' .. table.concat(names(), ', '))
    return
  end
  subcommand({
    rest = vim.trim(rest),
    bufnr = vim.api.nvim_get_current_buf(),
    lines = given.range > 0 and { first = given.line1, last = given.line2 } or nil,
  })
end

local function matching(candidates, lead)
  return vim.tbl_filter(function(each)
    return vim.startswith(each, lead)
  end, candidates)
end

---@param lead string
---@param line string the command line
---@return string[]
local function complete(lead, line)
  local before = line:match('^.-Warmline%s+(.*)$') or ''
  local name = before:match('^(%S+)%s')
  if name == nil then
    return matching(names(), lead)
  elseif name == 'variant' then
    return matching(require('warmline.variants').names(vim.api.nvim_get_current_buf()), lead)
  elseif name == 'pause' or name == 'resume' then
    return matching(pause.SCOPES, lead)
  end
  return {}
end

--- Define the command.
function M.define()
  vim.api.nvim_create_user_command('Warmline', run, {
    nargs = '+',
    range = true,
    complete = complete,
    desc = 'Warmline: variants, chat and what goes on',
  })
end

return M
