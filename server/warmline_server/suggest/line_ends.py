"""Line ends: the filters work with \\n only, and the document gets back the line end that it uses most."""


def to_lf(text: str) -> str:
    """`text` with \\r\\n and lone \\r as \\n. Cut anywhere, also within \\r\\n, the answer is a prefix too."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def dominant(text: str) -> str:
    """The line end that `text` uses most; \\n in a text of one line and on a tie."""
    crlf = text.count("\r\n")
    counts = {"\n": text.count("\n") - crlf, "\r\n": crlf, "\r": text.count("\r") - crlf}
    return max(counts, key=lambda end: counts[end])


def restore(text: str, line_end: str) -> str:
    """`text`, which has \\n only, with the document's line end."""
    return text if line_end == "\n" else text.replace("\n", line_end)
