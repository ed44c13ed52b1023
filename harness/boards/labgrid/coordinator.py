"""A client of a labgrid coordinator, by labgrid's protocol (the extra `labgrid`)."""

from __future__ import annotations

import contextlib
import getpass
import os
import queue
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.errors import BoardUnreachableError, ConfigurationError

ANSWER_SECONDS = 20.0  # timeout for an answer of the coordinator


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place of a coordinator (HOST:PORT), and how long to wait if it is held."""

    coordinator: str
    name: str
    wait_seconds: float = 0.0

    def __str__(self) -> str:
        return f"place {self.name} of {self.coordinator}"


def own_name() -> str:
    """This user and machine, as labgrid's client names them."""
    host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
    return f"{host}/{os.environ.get('LG_USERNAME') or getpass.getuser()}"


@dataclass(kw_only=True)
class Session:
    """A connection to a coordinator, with the places and resources at its start."""

    coordinator: str
    stub: Any
    messages: Any  # the module that labgrid generates from its protocol
    places: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)  # by exporter/group/class/name

    def listen(self, updates: Any) -> None:
        """Reads all places and resources."""
        for message in updates:
            for update in message.updates:
                if update.HasField("place"):
                    self.places[update.place.name] = update.place
                elif update.HasField("resource"):
                    path, kind = update.resource.path, update.resource.cls
                    name = f"{path.exporter_name}/{path.group_name}/{kind}/{path.resource_name}"
                    self.resources[name] = update.resource
            if message.HasField("sync"):
                return
        raise BoardUnreachableError(f"labgrid's coordinator {self.coordinator} closed the connection")

    def place(self, place: Place, *, anew: bool = False) -> Any:
        if anew:
            answer = self.stub.GetPlaces(self.messages.GetPlacesRequest(), timeout=ANSWER_SECONDS)
            self.places = {known.name: known for known in answer.places}
        if place.name not in self.places:
            raise ConfigurationError(
                f"labgrid's coordinator {place.coordinator} has no place {place.name}",
                hint="`labgrid-client places` lists them.",
            )
        return self.places[place.name]

    def acquire(self, place: Place) -> str | None:
        """Acquires a place. Returns None, or the reason why the coordinator refuses: another user was faster,
        or has reserved it."""
        import grpc

        try:
            self.stub.AcquirePlace(
                self.messages.AcquirePlaceRequest(placename=place.name), timeout=ANSWER_SECONDS
            )
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED):
                return str(error.details())
            raise
        return None

    def release(self, place: Place) -> None:
        """Releases the place if this user holds it."""
        self.stub.ReleasePlace(
            self.messages.ReleasePlaceRequest(placename=place.name, fromuser=own_name()),
            timeout=ANSWER_SECONDS,
        )

    def network_service(self, place: Place, acquired: Any) -> tuple[str, int, str]:
        """Host, port and user of the place's board."""
        for path in acquired.acquired_resources:
            resource = self.resources.get(path)
            if resource is None or resource.cls != "NetworkService":
                continue
            values = {
                key: getattr(value, value.WhichOneof("kind") or "string_value")
                for key, value in resource.params.items()
            }
            host, port, user = values.get("address"), values.get("port", 22), values.get("username", "")
            if isinstance(host, str) and host and isinstance(user, str) and port in range(1, 65536):
                return host, port, user
        raise ConfigurationError(
            f"{place} has no NetworkService with the address of its board",
            hint="Export one (address, username, port) and match it: `labgrid-client -p PLACE add-match`.",
        )


@contextlib.contextmanager
def session_with(coordinator: str) -> Iterator[Session]:
    """Connects and reads places and resources. Raises BoardUnreachableError without an answer."""
    try:
        import grpc
        from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
        from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub
        from labgrid.util import labgrid_version
    except ImportError:
        raise ConfigurationError(
            "labgrid is not installed", hint="Install it with `pip install 'harness[labgrid]'`."
        ) from None
    outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # A coordinator tells clients apart by connection: two boards must not share one.
    with grpc.insecure_channel(coordinator, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = CoordinatorStub(channel)
        startup, subscribe, sync = (messages.ClientInMessage() for _ in range(3))
        startup.startup.version, startup.startup.name = labgrid_version(), own_name()
        subscribe.subscribe.all_places = True
        resources = messages.ClientInMessage()
        resources.subscribe.all_resources = True
        sync.sync.id = 1
        for message in (startup, subscribe, resources, sync):
            outgoing.put(message)
        session = Session(coordinator=coordinator, stub=stub, messages=messages)
        updates = stub.ClientStream(iter(outgoing.get, None), timeout=2 * ANSWER_SECONDS)
        try:
            session.listen(updates)
            yield session
        except grpc.RpcError as error:
            raise BoardUnreachableError(
                f"labgrid's coordinator {coordinator} does not answer: {error.details()}",
                hint="Check that it runs, and its address in the boards file.",
            ) from None
        finally:
            outgoing.put(None)
            updates.cancel()
