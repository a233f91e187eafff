;;; completion.el --- Emacs in batch mode takes a suggestion -*- lexical-binding: t; -*-

;; The environment names the configuration (CONFIG), the file (FILE) and where the buffer's text goes afterwards (OUT).

(setq create-lockfiles nil make-backup-files nil)
(setq warmline-command (list (getenv "PYTHON") "-m" "warmline_server" "lsp"))
(load (getenv "CONFIG") nil t)

(find-file (getenv "FILE"))
(goto-char (point-max))
(skip-chars-backward "\n")
(call-interactively #'eglot)

(defun warmline-test-take ()
  "Take the first candidate at point, as a completion UI does; nil without any."
  (pcase (ignore-errors (eglot-completion-at-point))
    (`(,beg ,end ,table . ,props)
     (let ((candidate (car (all-completions (buffer-substring beg end) table))))
       (when candidate
         (delete-region beg end)
         (insert candidate)
         (funcall (plist-get props :exit-function) candidate 'finished)
         candidate)))))

(let ((until (+ (float-time) 60)) (taken nil))
  (while (and (not taken) (< (float-time) until))
    (setq taken (warmline-test-take))
    (accept-process-output nil 0.1))
  (write-region (point-min) (point-max) (getenv "OUT") nil 'quiet)
  (ignore-errors (eglot-shutdown-all))
  (kill-emacs (if taken 0 1)))
