/** What passes between VS Code and the server is looked at here. */
import { Uri, window } from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import type { StatusBar } from "../status/bar";
import type { Suggestions } from "../suggest/provider";
import type { Switcher } from "../variants/switch";

/** Begin of the tokens of the server's own progress reports about a base that is loaded. */
const LOADING = "warmline-load-";

/** Makes the middleware of each client. */
export function makeMiddleware(suggestions: Suggestions, bar: StatusBar, switcher: Switcher): Middleware {
  return {
    provideInlineCompletionItems: (document, position, context, token, next) =>
      suggestions.provide(document, position, context, token, next),
    handleWorkDoneProgress: (token, params, next) => {
      // The status bar item shows it; a second one beside it would say the same.
      if (String(token).startsWith(LOADING)) {
        bar.loading(params.kind === "end" ? undefined : params.percentage);
      } else {
        next(token, params);
      }
    },
    executeCommand: (command, args, next) => {
      const given = (args[0] ?? {}) as { uri?: string; variant?: string };
      if (command === "warmline.selectVariant" && given.variant === undefined) {
        return guarded(() => switcher.choose(given.uri ? Uri.parse(given.uri) : undefined));
      }
      return next(command, args);
    },
  };
}

/** Does something for the person, and tells when it fails. */
export async function guarded(act: () => Promise<unknown> | unknown): Promise<void> {
  try {
    await act();
  } catch (error) {
    void window.showErrorMessage(`Warmline: ${error instanceof Error ? error.message : String(error)}`);
  }
}
