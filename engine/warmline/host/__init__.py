"""The engine as others reach it: messages, service, client."""
