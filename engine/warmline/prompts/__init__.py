"""Text in, prompt text or tokens out; pure."""
