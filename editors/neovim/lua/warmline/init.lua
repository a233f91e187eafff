--- Warmline: completions of the workspace's own model variant. See `:h warmline`.

local config = require('warmline.config')

local M = {}

--- Set Warmline up. See |warmline-setup|.
---@param options? table
function M.setup(options)
  if vim.fn.has('nvim-0.11') == 0 then
    error('warmline: needs Neovim 0.11 or newer', 0)
  end
  config.options = config.read(options)
  require('warmline.draw').define_highlights()
  require('warmline.server').configure()
  require('warmline.inline').enable()
  require('warmline.keymaps').set()
  require('warmline.focus').enable()
  require('warmline.watch').enable()
  require('warmline.commands').define()
  require('warmline.server').start()
end

--- The component for a statusline, empty where Warmline has nothing to do. See |warmline-statusline|.
---@return string
function M.statusline()
  return require('warmline.status').component()
end

---@return boolean done
function M.accept()
  return require('warmline.inline').accept('all')
end

---@return boolean done
function M.accept_word()
  return require('warmline.inline').accept('word')
end

---@return boolean done
function M.accept_line()
  return require('warmline.inline').accept('line')
end

---@return boolean done
function M.next()
  return require('warmline.inline').cycle(1)
end

---@return boolean done
function M.prev()
  return require('warmline.inline').cycle(-1)
end

function M.dismiss()
  require('warmline.inline').dismiss()
end

function M.trigger()
  require('warmline.inline').trigger()
end

--- Pause suggestions everywhere, or resume them.
function M.toggle()
  local inline = require('warmline.inline')
  if require('warmline.pause').reason(vim.api.nvim_get_current_buf()) then
    inline.resume_all()
  else
    inline.set_paused(true, 'all', 0)
  end
end

--- Show what answers here and where it came from. See |warmline-status|.
function M.status()
  require('warmline.hover').open()
end

return M
