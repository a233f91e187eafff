--- Keys of insert mode. Each does what it did before where there is nothing to accept.

local config = require('warmline.config')
local inline = require('warmline.inline')

local M = {}

local DESCRIPTIONS = {
  accept = 'accept the suggestion',
  accept_word = 'accept a word of the suggestion',
  accept_line = 'accept a line of the suggestion',
  next = 'next suggestion',
  prev = 'previous suggestion',
  dismiss = 'put the suggestion away',
  trigger = 'ask for suggestions',
}

local function codes(keys)
  return vim.api.nvim_replace_termcodes(keys, true, true, true)
end

--- Give the keys that do what a mapping from before does.
---@param before table as `maparg()` gives it; empty for none
---@param key string
---@return string
local function fallback(before, key)
  if vim.tbl_isempty(before) then
    return codes(key)
  elseif before.callback and before.expr == 1 then
    local keys = before.callback() or ''
    return before.replace_keycodes == 1 and codes(keys) or keys
  elseif before.callback then
    vim.schedule(before.callback)
    return ''
  elseif before.expr == 1 then
    local keys = vim.api.nvim_eval(before.rhs)
    return before.replace_keycodes == 1 and codes(keys) or keys
  end
  vim.api.nvim_feedkeys(codes(before.rhs), before.noremap == 1 and 'ni' or 'mi', false)
  return ''
end

local ours = {} ---@type table<string, boolean>

--- Set the keys of the options.
function M.set()
  for action, key in pairs(config.options.keymaps) do
    if key and not ours[key] then
      local before = vim.fn.maparg(key, 'i', false, true)
      if before.buffer == 1 then
        before = {}
      end
      vim.keymap.set('i', key, function()
        local keys = inline.keys(action)
        return keys and codes(keys) or fallback(before, key)
      end, { expr = true, replace_keycodes = false, desc = 'Warmline: ' .. DESCRIPTIONS[action] })
      ours[key] = true
    end
  end
end

return M
