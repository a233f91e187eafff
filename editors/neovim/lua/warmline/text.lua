--- Text of models, files and servers, made fit to be shown: it is data, and drives neither terminal nor statusline.

local M = {}

-- Marks that reorder what is written, and characters without a width: with them a name can look like another one.
local INVISIBLE = {
  '\u{061C}', '\u{200B}', '\u{200C}', '\u{200D}', '\u{200E}', '\u{200F}', '\u{2060}', '\u{FEFF}',
  '\u{2028}', '\u{2029}', '\u{202A}', '\u{202B}', '\u{202C}', '\u{202D}', '\u{202E}',
  '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
}

local function cleaned(text, controls)
  text = text:gsub(controls, '')
  text = text:gsub('\xC2[\x80-\x9F]', '')
  for _, mark in ipairs(INVISIBLE) do
    text = text:gsub(mark, '')
  end
  return text
end

--- One line without control characters, cut to `most` characters.
---@param text any what is no string is nothing
---@param most? integer
---@return string
function M.line(text, most)
  if type(text) ~= 'string' then
    return ''
  end
  local line = cleaned(text:gsub('%s+', ' '), '%c')
  if most and vim.fn.strchars(line) > most then
    line = vim.fn.strcharpart(line, 0, most - 1) .. '…'
  end
  return line
end

--- Lines without control characters but for tabs.
---@param text any
---@return string[]
function M.lines(text)
  if type(text) ~= 'string' then
    return {}
  end
  text = text:gsub('\r\n', '\n'):gsub('\r', '\n')
  return vim.split(cleaned(text, '[%z\1-\8\11-\31\127]'), '\n', { plain = true })
end

--- A line for a statusline expression, where `%` begins an item.
---@param text any
---@param most? integer
---@return string
function M.for_statusline(text, most)
  return (M.line(text, most):gsub('%%', '%%%%'))
end

--- The part of a digest that people compare.
---@param digest any `sha256:` and 64 digits
---@return string
function M.short(digest)
  local text = M.line(digest)
  return text:match('^%w+:%x%x%x%x%x%x%x%x%x%x%x%x') or text
end

return M
