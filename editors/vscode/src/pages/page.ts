/** The frame of the extension's own pages: its script and its style, and nothing else gets in. Pure. */

export interface Page {
  title: string;
  /** Addresses of the bundle and the style sheet as the page sees them. */
  script: string;
  style: string;
  /** `Webview.cspSource`. */
  source: string;
  /** Random, for this page alone. */
  nonce: string;
}

/** Writes the page: no inline code, no remote content, no text ever made into HTML. */
export function pageOf(page: Page): string {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${page.nonce}'`,
    `style-src ${page.source}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${page.style}">
<title>${page.title}</title>
</head>
<body>
<script nonce="${page.nonce}" src="${page.script}"></script>
</body>
</html>
`;
}
