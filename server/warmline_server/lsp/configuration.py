"""`workspace/configuration` and `workspace/didChangeConfiguration`: the editor's settings, whenever they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from warmline.errors import ConfigError

from .initialize import Client
from .settings import SECTION, EditorSettings, read_settings

if TYPE_CHECKING:
    from .outlet import Outlet
    from .protocol import WarmlineServer

_REGISTRATION: Final = "warmline-configuration"


class Configuration:
    """The settings in force; what is wrong with them is told once, and again only after it was right meanwhile."""

    def __init__(self, outlet: Outlet, options: object = None) -> None:
        self._outlet = outlet
        self._told: set[tuple[str | None, str]] = set()
        self.settings = EditorSettings()
        if options is not None:
            self.take(options)

    def take(self, raw: object) -> EditorSettings:
        """Put what the editor sent in force, but for what cannot be used."""
        self.settings, problems = read_settings(raw)
        for problem in problems:
            if (problem.field, problem.message) not in self._told:
                self._tell(problem)
        self._told = {(problem.field, problem.message) for problem in problems}
        return self.settings

    def _tell(self, problem: ConfigError) -> None:
        self._outlet.log(types.MessageType.Warning, f"{problem.code}: {problem}")
        self._outlet.show(types.MessageType.Warning, f"Warmline: {problem}")


def registration(client: Client) -> types.Registration | None:
    """Give what to register to be told of changes; None where the client does not take it."""
    if not client.watches_settings:
        return None
    options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
    return types.Registration(_REGISTRATION, types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)


async def pull(ls: WarmlineServer) -> None:
    """Ask the client for the settings; what it refuses to tell stays as it is."""
    params = types.ConfigurationParams(items=[types.ConfigurationItem(section=SECTION)])
    try:
        answer = await ls.protocol.send_request_async(types.WORKSPACE_CONFIGURATION, params)
    except Exception:
        return
    if isinstance(answer, (list, tuple)) and answer and answer[0] is not None:
        ls.session.configure(plain(answer[0]))


async def did_change_configuration(ls: WarmlineServer, params: types.DidChangeConfigurationParams) -> None:
    """Take the new settings: from the message, or by asking where the client is one that is asked."""
    if ls.session.client.pulls_settings:
        await pull(ls)
    elif params.settings is not None:
        ls.session.configure(plain(params.settings))


def plain(value: Any) -> Any:
    """Turn what pygls makes of JSON objects (named tuples) back into JSON data."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain(inner) for key, inner in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return value
