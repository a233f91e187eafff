--- What a person sets in `setup{}`, checked: an error names the field, what it takes and what it was given.

local M = {}

---@class warmline.Options
---@field cmd string[] how the language server is started
---@field filetypes string[]|nil file types in which it works; nil for all
---@field settings table the server's own settings, section `warmline`
---@field ghost { enabled: boolean, native: boolean|nil }
---@field keymaps table<string, string|false>
---@field chat { position: 'right'|'below'|'tab', size: number }

---@type warmline.Options
local DEFAULTS = {
  cmd = { 'warmline', 'lsp' },
  filetypes = nil,
  settings = {},
  ghost = { enabled = true, native = nil },
  keymaps = {
    accept = '<Tab>',
    accept_word = '<C-Right>',
    accept_line = '<C-End>',
    next = '<M-n>',
    prev = '<M-p>',
    dismiss = '<C-]>',
    trigger = '<M-\\>',
  },
  chat = { position = 'right', size = 0.4 },
}

local function strings(value, least)
  if not vim.islist(value) or #value < least then
    return false
  end
  return vim.iter(value):all(function(each)
    return type(each) == 'string' and each ~= ''
  end)
end

local function boolean(value)
  return type(value) == 'boolean'
end

local function object(value)
  return type(value) == 'table' and (vim.tbl_isempty(value) or not vim.islist(value))
end

local function part_of_a_screen(value)
  return type(value) == 'number' and value >= 0.1 and value <= 0.9
end

local function position(value)
  return vim.list_contains({ 'right', 'below', 'tab' }, value)
end

local function key(value)
  return value == false or (type(value) == 'string' and value ~= '')
end

-- By field: what it takes, in words, and the check. A table of fields stands for a group.
local FIELDS = {
  cmd = { 'a list of strings, the program first', function(value) return strings(value, 1) end },
  filetypes = { 'a list of file types', function(value) return strings(value, 1) end },
  settings = { 'a table', object },
  ghost = {
    enabled = { 'true or false', boolean },
    native = { 'true or false', boolean },
  },
  keymaps = {},
  chat = {
    position = { "'right', 'below' or 'tab'", position },
    size = { 'a number between 0.1 and 0.9', part_of_a_screen },
  },
}
for name in pairs(DEFAULTS.keymaps) do
  FIELDS.keymaps[name] = { 'a key such as "<Tab>", or false for none', key }
end

local function refuse(field, why)
  error(('warmline: setup{}: %s: %s'):format(field, why), 0)
end

local function check(given, fields, path)
  for name, value in pairs(given) do
    local field = path .. tostring(name)
    local known = fields[name]
    if known == nil then
      local names = vim.tbl_keys(fields)
      table.sort(names)
      refuse(field, 'there is no such option; options here: ' .. table.concat(names, ', '))
    elseif type(known[2]) == 'function' then
      if not known[2](value) then
        refuse(field, ('takes %s, not %s'):format(known[1], vim.inspect(value, { newline = ' ', indent = '' })))
      end
    elseif type(value) ~= 'table' then
      refuse(field, ('takes a table, not %s'):format(vim.inspect(value)))
    else
      check(value, known, field .. '.')
    end
  end
end

--- An empty table of Lua may be a list or an object of JSON; a group of settings is an object.
---@param settings table
---@return table
local function as_objects(settings)
  return vim.tbl_isempty(settings) and vim.empty_dict()
    or vim.tbl_map(function(group)
      return type(group) == 'table' and vim.tbl_isempty(group) and vim.empty_dict() or group
    end, settings)
end

--- Check what a person gave and fill in the defaults.
---@param given? table
---@return warmline.Options
function M.read(given)
  if given ~= nil and type(given) ~= 'table' then
    refuse('options', ('takes a table, not %s'):format(vim.inspect(given)))
  end
  check(given or {}, FIELDS, '')
  local options = vim.tbl_deep_extend('force', DEFAULTS, given or {})
  options.settings = as_objects(options.settings)
  if options.ghost.native and vim.lsp.inline_completion == nil then
    refuse('ghost.native', 'this Neovim has no vim.lsp.inline_completion (0.12 has); leave it out')
  end
  if options.ghost.native == nil then
    options.ghost.native = vim.lsp.inline_completion ~= nil
  end
  return options
end

---@type warmline.Options what is in force
M.options = vim.deepcopy(DEFAULTS)

return M
