"""The engine in a process of its own, and how clients reach it."""

import os

# gRPC's core tells stderr of each connection that ends, which is the terminal of whoever uses a client; what counts of
# that is an exception too.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
