-- The init.lua of the tests' Neovim. WARMLINE_OPTIONS holds what setup{} is given, as JSON;
-- WARMLINE_BEFORE is Lua that runs before.

vim.opt.runtimepath:prepend(vim.env.WARMLINE_PLUGIN)
vim.o.swapfile = false
vim.o.shadafile = 'NONE'
vim.o.laststatus = 2
vim.o.columns = 120
vim.o.statusline = "%f %{%v:lua.require'warmline'.statusline()%}"
vim.bo.expandtab = true

-- What a person was shown, and what she answers when she is asked.
_G.shown = {}
vim.notify = function(message)
  table.insert(_G.shown, message)
end
_G.questions, _G.answer = {}, nil
vim.ui.select = function(items, options, done)
  local labels = vim.tbl_map(options.format_item or tostring, items)
  table.insert(_G.questions, { prompt = options.prompt, labels = labels })
  for index, label in ipairs(labels) do
    if _G.answer and label:find(_G.answer, 1, true) then
      done(items[index], index)
      return
    end
  end
  done(nil, nil)
end
vim.ui.input = function(_, done)
  done(_G.answer)
end

--- The ghost text of the current buffer as a person reads it: lines, the first one at the cursor.
function _G.ghost()
  local lines = {}
  local namespace = vim.api.nvim_get_namespaces()['warmline']
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
    local function joined(chunks)
      return table.concat(vim.tbl_map(function(chunk) return chunk[1] end, chunks))
    end
    table.insert(lines, joined(mark[4].virt_text or {}))
    for _, line in ipairs(mark[4].virt_lines or {}) do
      table.insert(lines, joined(line))
    end
  end
  return table.concat(lines, '\n')
end

--- The statusline of the current window as it is drawn.
function _G.statusline()
  return vim.api.nvim_eval_statusline(vim.o.statusline, { winid = 0 }).str
end

if vim.env.WARMLINE_BEFORE then
  loadstring(vim.env.WARMLINE_BEFORE)()
end
if vim.env.WARMLINE_OPTIONS then
  require('warmline').setup(vim.json.decode(vim.env.WARMLINE_OPTIONS))
end
