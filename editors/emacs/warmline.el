;;; warmline.el --- Warmline with eglot -*- lexical-binding: t; -*-

;; Put this into your init file, or load it from there.  Eglot is part of Emacs since 29; for Emacs 28 it is a package.
;; Eglot talks to one server for each mode: name the modes in which Warmline shall be that one.

;;; Code:

(require 'eglot)

(defvar warmline-command '("warmline" "lsp")
  "How Warmline's language server is started.")

(defvar warmline-modes '(python-mode python-ts-mode)
  "Major modes in which Warmline completes.")

(add-to-list 'eglot-server-programs (cons warmline-modes warmline-command))

(dolist (mode warmline-modes)
  (add-hook (intern (format "%s-hook" mode)) #'eglot-ensure))

;; The first answer waits for the model to be loaded.
(setq-default eglot-connect-timeout 60)

(provide 'warmline)
;;; warmline.el ends here
