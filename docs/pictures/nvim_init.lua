-- The init.lua behind the pictures: the plugin of this checkout, and how it looks.

local here = vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2))
vim.opt.runtimepath:prepend(vim.fs.normalize(here .. '/../../editors/neovim'))

vim.o.background = 'dark'
vim.o.termguicolors = true
vim.o.number = true
vim.o.showmode = false
vim.o.ruler = false
vim.o.swapfile = false
vim.o.shadafile = 'NONE'
vim.o.statusline = " %f %m%=%{%v:lua.require'warmline'.statusline()%} "
vim.o.winborder = 'solid'

require('warmline').setup {}
