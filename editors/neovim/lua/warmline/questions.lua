--- What the server sends that a person has to see: messages, questions, how far a model is loaded, text of answers.

local notice = require('warmline.notice')
local reports = require('warmline.reports')
local text = require('warmline.text')

local M = {}

local LEVELS = { vim.log.levels.ERROR, vim.log.levels.WARN, vim.log.levels.INFO, vim.log.levels.DEBUG }

-- Questions are put while somebody has asked for them. One that comes by itself would eat what is being typed.
local expected = 0
local streams = {} ---@type table<string, fun(value: table)>

--- The person asked for something about which the server may have a question.
---@param task fun(done: fun()) calls `done` when it is over
function M.expecting(task)
  expected = expected + 1
  task(function()
    expected = expected - 1
  end)
end

--- Have what the server says of a request under `token` given to `take`; nil to end it.
---@param token string
---@param take fun(value: table)?
function M.stream(token, take)
  streams[token] = take
end

local function ask(_, params)
  local question, actions = text.line(params.message), params.actions or {}
  if expected == 0 then
    notice.warn(question, ':Warmline trust asks')
    return vim.NIL
  end
  local asking = assert(coroutine.running())
  vim.ui.select(actions, {
    prompt = question,
    kind = 'warmline',
    format_item = function(action)
      return text.line(action.title)
    end,
  }, function(choice)
    vim.schedule(function()
      coroutine.resume(asking, choice or vim.NIL)
    end)
  end)
  return coroutine.yield()
end

local function show(_, params)
  local info = params.type == vim.lsp.protocol.MessageType.Info
  notice.show(params.message, not info and ':Warmline status says more' or nil, LEVELS[params.type])
end

local function progress(err, params, ctx)
  local value = type(params.value) == 'table' and params.value or {}
  if streams[params.token] then
    streams[params.token](value)
    return vim.NIL
  end
  if tostring(params.token):match('^warmline%-load') then
    reports.progressed(ctx.client_id, value.kind ~= 'end' and (tonumber(value.percentage) or 0) or nil)
  end
  return vim.lsp.handlers['$/progress'](err, params, ctx)
end

---@return table<string, lsp.Handler>
function M.handlers()
  return {
    ['window/showMessage'] = show,
    ['window/showMessageRequest'] = ask,
    ['$/progress'] = progress,
  }
end

return M
