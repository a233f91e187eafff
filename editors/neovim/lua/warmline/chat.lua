--- A conversation in a split: answers stream in, each is headed by the variant that wrote it, and one runs at a time.

local notice = require('warmline.notice')
local pane = require('warmline.pane')
local questions = require('warmline.questions')
local server = require('warmline.server')
local text = require('warmline.text')

local M = {}

---@class warmline.Turn
---@field client vim.lsp.Client
---@field id integer?
---@field token string
---@field message string
---@field streamed boolean

local MOST_MESSAGES = 100

local turn = nil ---@type warmline.Turn?
local conversation = 0
local turns = 0
-- Goes along with each question, for a server that was started anew and knows nothing of it.
local history = {} ---@type { role: string, content: string }[]
local source = nil ---@type integer? the buffer that the conversation is about

local function name()
  return ('neovim-%d-%d'):format(vim.fn.getpid(), conversation)
end

---@return boolean
function M.running()
  return turn ~= nil
end

local function ended(note)
  if turn then
    questions.stream(turn.token, nil)
    turn = nil
  end
  if note then
    pane.paragraph(note)
  end
  pane.title('<CR> ask · R new · q close')
end

local function heading(variant, identity)
  local digest = text.short(identity)
  return ('## %s%s'):format(text.line(variant), digest ~= '' and (' (%s)'):format(digest) or '')
end

local function finished(this, err, result)
  if turn ~= this then
    return
  end
  if err then
    ended('> error: ' .. text.line(err.message))
    return
  end
  if not this.streamed then
    pane.paragraph(heading(result.variant, result.identity))
    pane.stream(result.text)
  end
  ended()
  if result.text ~= '' and result.outcome ~= 'cancelled' and result.outcome ~= 'superseded' then
    table.insert(history, { role = 'user', content = this.message })
    table.insert(history, { role = 'assistant', content = result.text })
    history = vim.list_slice(history, math.max(#history - MOST_MESSAGES + 1, 1))
  end
  if result.outcome ~= 'stop' then
    pane.paragraph('> ended: ' .. text.line(result.outcome))
  end
  if type(result.notice) == 'string' then
    pane.paragraph('> ' .. text.line(result.notice))
  end
end

--- End the answer that is being written; what is there of it stays, and the conversation does not know it.
function M.stop()
  if turn == nil then
    return
  end
  if turn.id and not turn.client:is_stopped() then
    turn.client:cancel_request(turn.id)
  end
  ended('> stopped')
end

---@class warmline.Question
---@field message string?
---@field uri string? a document that goes along
---@field range lsp.Range? the part of it that is meant
---@field about string? how that is shown
---@field command 'chat'|'explain'

--- Put a question.
---@param question warmline.Question
function M.ask(question)
  if turn then
    notice.warn('an answer is being written', 's in the chat stops it')
    return
  end
  local bufnr = source and vim.api.nvim_buf_is_valid(source) and source or vim.api.nvim_get_current_buf()
  local client = server.required(bufnr)
  if client == nil then
    return
  end
  turns = turns + 1
  local this = {
    client = client,
    token = ('warmline-chat-%d-%d'):format(vim.fn.getpid(), turns),
    message = question.message or 'Explain this.',
    streamed = false,
  }
  turn = this
  pane.open(M)
  pane.paragraph('## you')
  pane.stream(this.message)
  if question.about then
    pane.paragraph('> about ' .. question.about)
  end
  pane.title('s or <C-c> stop')
  questions.stream(this.token, function(value)
    if value.kind == 'started' then
      this.streamed = true
      pane.paragraph(heading(value.variant, value.identity))
    elseif value.kind == 'text' then
      pane.stream(value.text)
    end
  end)
  local arguments = {
    message = question.message,
    conversation = name(),
    uri = question.uri,
    range = question.range,
    history = #history > 0 and history or nil,
    partialResultToken = this.token,
  }
  this.id = server.run(client, question.command, arguments, function(err, result)
    finished(this, err, result)
  end, bufnr)
end

--- The buffer that is meant where somebody speaks of this one: in the chat, the one that the conversation is about.
---@param bufnr integer
---@return integer
function M.subject(bufnr)
  return pane.holds(bufnr) and source and vim.api.nvim_buf_is_valid(source) and source or bufnr
end

--- Ask the person for the next message.
function M.prompt()
  vim.ui.input({ prompt = 'Warmline: ' }, function(message)
    if message and vim.trim(message) ~= '' then
      M.ask({ message = message, command = 'chat' })
    end
  end)
end

--- Begin another conversation.
function M.restart()
  M.stop()
  conversation, history = conversation + 1, {}
  pane.clear()
end

--- Open the chat for the current buffer, with a question or without.
---@param question warmline.Question?
function M.open(question)
  if vim.bo.buftype == '' then
    source = vim.api.nvim_get_current_buf()
  end
  if question then
    M.ask(question)
  else
    pane.open(M)
    M.prompt()
  end
end

vim.api.nvim_create_autocmd('LspDetach', {
  group = vim.api.nvim_create_augroup('warmline.chat', {}),
  callback = function(event)
    if turn and turn.client.id == event.data.client_id then
      ended('> error: the server has gone')
    end
  end,
})

return M
