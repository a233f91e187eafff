"""The ways to a host: two Unix sockets, or two ports on 127.0.0.1 and a secret.

Ports are for systems where asyncio has no Unix sockets (Windows) and for runtime folders that cannot hold any:
WARMLINE_TRANSPORT=tcp asks for them. Every user of a machine can connect to a port, and listen on one that a host has
left. So the host writes its ports, with secrets that are new at each start, into a file that nobody else can read
(`HostPaths.socket`), and both sides prove that they have read it before either says anything: on gRPC's port by TLS,
where both show the file's one certificate, on the stream's port by a challenge each way. What is proven there holds for
that one connection alone (its addresses are part of it), so that nobody can pass a challenge on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import grpc
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..digests import open_regular
from ..errors import WarmlineError
from .paths import HostPaths
from .rpc import CLIENTS_OPTIONS, HOSTS_OPTIONS, method_path

LOOPBACK: Final = "127.0.0.1"
# Who is not who it is taken for has so long to prove it.
_PROOF_SECONDS: Final = 5.0
_NONCE_BYTES: Final = 32
_PROOF_BYTES: Final = 32  # of SHA-256
_LONGEST_FILE: Final = 4096
_NAME: Final = "warmline"  # in the certificate; whoever checks it knows no other host by that name
_CLIENTS_OPTIONS: Final = (*CLIENTS_OPTIONS, ("grpc.ssl_target_name_override", _NAME))
_HOSTS_OPTIONS: Final = (*HOSTS_OPTIONS, ("grpc.server_handshake_timeout_ms", int(_PROOF_SECONDS * 1000)))

#: What the host says when the client's proof holds.
ADMITTED: Final = b"\1"

P = TypeVar("P", bound=asyncio.Protocol)
Address = tuple[str, int]


class Ports(BaseModel):
    """What the file of a host on ports holds, as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grpc: int = Field(ge=1, le=65535)
    stream: int = Field(ge=1, le=65535)
    secret: str = Field(pattern=rf"^[0-9a-f]{{{2 * _NONCE_BYTES}}}$", repr=False)
    certificate: str = Field(pattern=r"^-----BEGIN CERTIFICATE-----\n", max_length=1500)
    key: str = Field(pattern=r"^-----BEGIN PRIVATE KEY-----\n", max_length=1500, repr=False)

    def proof(self, whose: bytes, nonces: bytes, client: Address, host: Address) -> bytes:
        """Return what only a reader of this file answers to both sides' nonces on the connection between two addresses.

        `whose` is ``host`` or ``client``.
        """
        said = b"\n".join([whose, nonces, repr(client).encode(), repr(host).encode()])
        return hmac.digest(bytes.fromhex(self.secret), said, "sha256")


# -- the client's side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A gRPC channel to a host."""

    channel: grpc.aio.Channel

    def one_answer(self, method: str, message: bytes, seconds: float | None = None) -> Any:
        """Call a method that answers once; bytes in, bytes out."""
        call: Any = self.channel.unary_unary(method_path(method))
        return call(message, timeout=seconds)

    def many_answers(self, method: str, message: bytes) -> Any:
        """Call a method that streams its answers; bytes in, bytes out."""
        call: Any = self.channel.unary_stream(method_path(method))
        return call(message)

    async def close(self, seconds: float = 0.0) -> None:
        """Close the channel; calls that run may end by themselves for so long."""
        await self.channel.close(seconds)

    async def __aenter__(self) -> Way:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def way_to(paths: HostPaths) -> Way | None:
    """Return a way to the host of `paths`, to be closed; None where none is to be found. Nothing is sent yet."""
    if not paths.tcp:
        if not paths.socket.exists():
            return None
        return Way(grpc.aio.insecure_channel(paths.address, options=CLIENTS_OPTIONS))
    ports = _ports_of(paths)
    if ports is None:
        return None
    shown = ports.certificate.encode()
    proving = grpc.ssl_channel_credentials(shown, ports.key.encode(), shown)
    return Way(grpc.aio.secure_channel(f"{LOOPBACK}:{ports.grpc}", proving, options=_CLIENTS_OPTIONS))


async def connected(paths: HostPaths, make: Callable[[], P]) -> P:
    """Connect to the host's streams of generations; raises OSError where nobody listens, or not the host."""
    loop = asyncio.get_running_loop()
    if not paths.tcp:
        _, call = await loop.create_unix_connection(make, str(paths.stream))
        return call
    ports = _ports_of(paths)
    if ports is None:
        raise ConnectionRefusedError("no host holds the lease")
    proven: asyncio.Future[P] = loop.create_future()
    proven.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to ask
    proving = _Proving(ports, make, proven)
    try:
        async with asyncio.timeout(_PROOF_SECONDS):
            await loop.create_connection(lambda: proving, LOOPBACK, ports.stream)
            return await proven
    except BaseException:
        proving.give_up()
        raise


def is_running(paths: HostPaths) -> bool:
    """Tell whether a host holds the lease."""
    if sys.platform == "win32":
        lease = FileLock(paths.lease, timeout=0)
        with contextlib.suppress(Timeout):
            lease.acquire()
            lease.release()
            return False
        return True
    import fcntl

    # Shared: of two who ask at once neither takes the other for a host.
    try:
        lease = os.open(paths.lease, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there are no locks here
        return False
    finally:
        os.close(lease)
    return False


def _ports_of(paths: HostPaths) -> Ports | None:
    try:
        with open_regular(paths.socket) as fd:
            status = os.fstat(fd)
            data = os.read(fd, _LONGEST_FILE)
    except (WarmlineError, OSError):
        return None
    if sys.platform != "win32" and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077):
        return None  # not what a host writes
    try:
        ports = Ports.model_validate_json(data)
    except ValidationError:
        return None
    return ports if is_running(paths) else None


class _Proving(asyncio.Protocol):
    """A client's side of the challenge on the stream's port; then the connection is that of what `make` makes."""

    def __init__(self, ports: Ports, make: Callable[[], P], proven: asyncio.Future[P]) -> None:
        self._ports = ports
        self._make = make
        self._proven = proven
        self._transport: asyncio.Transport | None = None
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._read = b""
        self._shown = False

    def give_up(self) -> None:
        """Leave it; nobody waits any more."""
        self._proven.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._nonce)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._read += data
        if not self._shown and len(self._read) >= _NONCE_BYTES + _PROOF_BYTES:
            theirs, self._read = _split(self._read, _NONCE_BYTES)
            shown, self._read = _split(self._read, _PROOF_BYTES)
            proof = partial(
                self._ports.proof,
                nonces=self._nonce + theirs,
                client=self._transport.get_extra_info("sockname"),
                host=self._transport.get_extra_info("peername"),
            )
            if not hmac.compare_digest(shown, proof(b"host")):
                self._transport.abort()
                return
            self._shown = True
            self._transport.write(proof(b"client"))
        if self._shown and self._read and not self._proven.done():
            admitted, rest = _split(self._read, len(ADMITTED))
            if admitted == ADMITTED:
                self._proven.set_result(_handed_over(self._transport, self._make, rest))
            else:
                self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._proven.done():
            self._proven.set_exception(ConnectionRefusedError("who listens there is no engine of this store"))


def _split(data: bytes, length: int) -> tuple[bytes, bytes]:
    return data[:length], data[length:]


def _handed_over(transport: asyncio.Transport, make: Callable[[], P], rest: bytes) -> P:
    call = make()
    transport.set_protocol(call)
    call.connection_made(transport)
    if rest:
        call.data_received(rest)
    return call


# -- the host's side -------------------------------------------------------------------------------------------------


class Door:
    """Where a host listens: gRPC, and before that the streams of generations."""

    def __init__(self, paths: HostPaths) -> None:
        self._paths = paths
        self._listener: asyncio.Server | None = None

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """What the gRPC server is to be made with."""
        return _HOSTS_OPTIONS

    async def open(self, server: grpc.aio.Server, make: Callable[[], asyncio.Protocol]) -> None:
        """Listen, start the gRPC server, and be found; raises OSError where nothing can be listened on."""
        for path in self._files:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()  # of a host that was killed; the lease says that none lives
        previous = os.umask(0o177)
        try:
            if self._paths.tcp:
                await self._open_ports(server, make)
            else:
                loop = asyncio.get_running_loop()
                # First: whoever finds the other socket may use this one.
                self._listener = await loop.create_unix_server(make, str(self._paths.stream))
                # Under a name of its own: gRPC removes what it was bound to when it stops, whosever it is by then.
                bound = self._paths.folder / f"{os.getpid()}.new"
                with contextlib.suppress(FileNotFoundError):
                    bound.unlink()
                server.add_insecure_port(f"unix:{bound}")
                await server.start()
                bound.replace(self._paths.socket)
        finally:
            os.umask(previous)
        for path in self._files:
            path.chmod(0o600)

    async def _open_ports(self, server: grpc.aio.Server, make: Callable[[], asyncio.Protocol]) -> None:
        certificate, key = _new_certificate()
        shown = certificate.encode()
        proving = grpc.ssl_server_credentials([(key.encode(), shown)], shown, require_client_auth=True)
        port = server.add_secure_port(f"{LOOPBACK}:0", proving)
        secret = secrets.token_hex(_NONCE_BYTES)
        ports = partial(Ports, grpc=port, secret=secret, certificate=certificate, key=key)
        proof = ports(stream=port).proof
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Admitting(proof, make), LOOPBACK, 0)
        await server.start()
        found = ports(stream=self._listener.sockets[0].getsockname()[1])
        # Whole or not at all: a client may look for it now.
        beside = self._paths.socket.with_suffix(".new")
        beside.write_text(found.model_dump_json(), "utf-8")
        beside.replace(self._paths.socket)

    @property
    def _files(self) -> tuple[Path, ...]:
        return (self._paths.socket,) if self._paths.tcp else (self._paths.stream, self._paths.socket)

    @property
    def stands(self) -> bool:
        """Whether what clients find the host by is still there."""
        return all(os.path.lexists(path) for path in self._files)

    def shut(self) -> None:
        """Take no new streams; those that there are go on."""
        if self._listener is not None:
            self._listener.close()

    def remove(self) -> None:
        """Be found no more."""
        for path in self._files:
            with contextlib.suppress(OSError):
                path.unlink()


class _Admitting(asyncio.Protocol):
    """The host's side of the challenge; hangs up on who does not stand it."""

    def __init__(self, proof: Callable[..., bytes], make: Callable[[], asyncio.Protocol]) -> None:
        self._proof = proof
        self._make = make
        self._nonces = b""
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        addresses = {"client": transport.get_extra_info("peername"), "host": transport.get_extra_info("sockname")}
        self._proof = partial(self._proof, **addresses)
        self._timer = asyncio.get_running_loop().call_later(_PROOF_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not self._nonces and len(self._read) >= _NONCE_BYTES:
            theirs, self._read = _split(self._read, _NONCE_BYTES)
            ours = secrets.token_bytes(_NONCE_BYTES)
            self._nonces = theirs + ours
            self._transport.write(ours + self._proof(b"host", self._nonces))
        if not self._nonces or len(self._read) < _PROOF_BYTES:
            return
        self._timer.cancel()
        shown, rest = _split(self._read, _PROOF_BYTES)
        if hmac.compare_digest(shown, self._proof(b"client", self._nonces)):
            self._transport.write(ADMITTED)
            _handed_over(self._transport, self._make, rest)
        else:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._timer.cancel()


def _new_certificate() -> tuple[str, str]:
    """Return a certificate and its private key, as PEM. Who has the key may answer to it and ask with it."""
    from cryptography import x509  # hosts on ports alone need it
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        # It ends with its host, so whether a machine's clock is right is not to matter.
        not_valid_before=datetime(2000, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2100, 1, 1, tzinfo=UTC),
    )
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return builder.sign(key, hashes.SHA256()).public_bytes(pem).decode(), private.decode()
