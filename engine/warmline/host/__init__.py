"""The engine in a process of its own, and how clients reach it."""

import os

# gRPC's core tells stderr of each connection that ends, which is the terminal of whoever uses a client.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
