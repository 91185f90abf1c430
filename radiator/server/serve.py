"""The whole broker as a process: builds its parts, and takes them down again on SIGTERM.

    store and broker -> threads and clock -> listeners -> READY ... SIGTERM -> no new connections, nothing more is read
    -> everything accepted is committed and its RECEIPTs are written -> store closed -> exit 0

Nothing is served before the store's boot number is on the disk; the store stays open until all that was accepted is.
"""

import faulthandler
import gc
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event

from radiator import __version__
from radiator.auth.authenticator import KEY_BYTES, Authenticator
from radiator.core.broker import Broker
from radiator.core.parts import Machine
from radiator.core.rights import rights_of
from radiator.core.server_view import ServerView
from radiator.model.commands import LoginRefused, Reread
from radiator.model.errors import EXIT_DISK_FAILED, ConfigError, RadiatorError, count_text
from radiator.model.limits import (
    COLLECT_EVERY_CONNECTIONS,
    COLLECT_EVERY_S,
    HALF_OPEN_MIN,
    OPERATORS_CONNECTIONS,
    SPARE_FILES,
    STOP_FINISH_MAX_S,
    STOP_LINGER_S,
    STOP_MAX_S,
    TICK_S,
    Limits,
)
from radiator.model.recovery import Recovery
from radiator.model.settings import PEER, PEERS, SOCKET_FILE, Address, Config, ListenAddress, UnixAddress, WebSettings
from radiator.model.users import ANONYMOUS
from radiator.model.writes import StoppedClean
from radiator.protocols.schemes import SCHEMES, has_pages, may_be_left_out
from radiator.server.connections import Connections
from radiator.server.credentials import Credentials, differences, load_credentials, warnings
from radiator.server.dialer import Dialer
from radiator.server.disk import CheckedStore
from radiator.server.dispatcher import Dispatcher
from radiator.server.halt import halt, halt_on_uncaught
from radiator.server.heap import HeapTrimmer, keep_heap, occupied_bytes
from radiator.server.inbox import Inbox
from radiator.server.links import LinkRegistry
from radiator.server.listener import AddressTaken, Listener
from radiator.server.log import EventLog, form_of, line
from radiator.server.notify import Watchdog, notify, watchdog_s
from radiator.server.places import Places
from radiator.server.reread import Read, Rereader
from radiator.server.timetable import Timetable
from radiator.server.tls import TlsListeners
from radiator.server.transport import SocketTransport, Transport
from radiator.server.uses import uses
from radiator.storage.lmdb.directory import DATA_FILE
from radiator.storage.lmdb.store import open_store
from radiator.storage.lmdb.unreadable import last_words

_STOP_LOOK_S = 0.005  # how often a stop checks whether it may go on
_SAME_SIGNAL_S = 0.05  # timeout(1) sends its one signal twice: to the process and to its group


def not_read(running: Config) -> Reread:
    """Returns the answer to a reload if the configuration comes from no file."""
    return Reread(None, mistakes=["The broker was started without a configuration file: there is nothing to read."])


def serve(config: Config, trust_clock: bool = False, read: Read = not_read, file: Path | None = None) -> int:
    """Serves until SIGTERM or SIGINT, and returns exit status 0. Raises StoreError, DiskFailed or RadiatorError if it
    cannot start.

    read: reads the configuration again, and compares it with the one in force. file: the configuration's; None: there
    is none.

    Later failures end the process itself: status 74 for a failed disk, 70 for a bug, 128 + its number for a second
    signal.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the configuration can be read again
    keep_heap()
    _have_last_words(config)
    credentials = load_credentials(config)
    node = config.node.name if config.node is not None else ""
    store = open_store(config.data_dir, config.map_size, node, config.log_keep, config.disk_free_min)
    try:
        return _made(config, store, trust_clock, read, credentials, file).run()
    finally:
        store.close()


def _have_last_words(config: Config) -> None:
    """Logs a line if the system ends the process: over an unreadable disk, or an abort in LMDB over damaged pages."""
    faulthandler.enable(2, all_threads=False)  # the descriptor: sys.stderr need not be a file

    form = form_of(config.logging, 2)

    def halted(sentence: str) -> str:
        return line("error", "halted", {"status": EXIT_DISK_FAILED, "sentence": sentence}, time.time(), form)

    last_words(config.data_dir / DATA_FILE, halted)


def _made(
    config: Config,
    store: CheckedStore,
    trust_clock: bool,
    read: Read,
    credentials: Credentials,
    file: Path | None,
) -> "Server":
    """Returns the server. A start that fails has served nothing, so it counts as a clean stop: its messages are not
    marked as redelivered.
    """
    try:
        return Server(config, store, trust_clock, read, credentials, file)
    except RadiatorError:
        store.commit([StoppedClean()])
        raise


def _broker(config: Config, recovery: Recovery, trust_clock: bool, view: ServerView) -> Broker:
    return Broker(
        config.declarations,
        config.limits,
        recovery,
        Machine(
            map_size=config.map_size,
            disk_free_min=config.disk_free_min,
            entropy=os.urandom,
            version=__version__,
            now_s=time.monotonic(),
            now_ms=time.time_ns() // 1_000_000,
            trust_clock=trust_clock,
            uid=os.geteuid(),
            view=view,
        ),
        config.node,
        authorizer=rights_of(config.users, os.geteuid()),
    )


class Server:
    """One run of the broker. All parts are built before any of them runs. Raises RadiatorError if one cannot be
    built.
    """

    def __init__(
        self,
        config: Config,
        store: CheckedStore,
        trust_clock: bool,
        read: Read,
        credentials: Credentials,
        file: Path | None = None,
    ) -> None:
        loop, recovery = gevent.get_hub().loop, store.recovery
        self._log = EventLog(logging=config.logging)
        self._signalled_s = 0.0
        self._stop = Event()
        broker = _broker(config, recovery, trust_clock, self._view(file))
        self._inbox = Inbox()
        self._read = read
        self._credentials = self._read_credentials = credentials
        self._tls: TlsListeners | None = None
        self._rereader = Rereader(loop, config, self._read_again, self._inbox, self._log)
        self._links = links = LinkRegistry(config.node, recovery.store_id, config.limits, self._log, self._inbox.report)
        self._places_wanted = _places_wanted(config)
        self._places = Places(*places_for(config, links.sockets_max, self._log), self._log)
        most = OPERATORS_CONNECTIONS
        self._operators = Places(most, most, most, self._log, f"of {SOCKET_FILE}")
        self._authenticator = _authenticator(config, credentials, self._log, self._inbox)
        self._connections = Connections(
            loop,
            config.limits,
            self._inbox,
            Timetable(loop),
            self._log,
            links,
            self._places,
            self._operators,
            f"{recovery.store_id}-{recovery.boot}",
            self._authenticator,
            config.http,
        )
        self._connections.web_state.node = config.node.name if config.node is not None else ""
        self._dialer = Dialer(links, self._connections, config.limits)
        self._dispatcher = Dispatcher(
            loop,
            broker,
            store,
            config.data_dir,
            self._inbox,
            self._connections,
            self._dialer,
            self._log,
            config.sync_interval_ms / 1000,
            self._rereader,
            self._use,
        )
        self._memory = broker.parts.memory
        self._listeners: list[Listener] = []
        self._loop = loop
        halt_on_uncaught(self._log, gevent.get_hub())
        self._log_start(config, recovery)
        self._listen(config)

    def _view(self, file: Path | None) -> ServerView:
        """Returns what requests may ask of this server."""
        return ServerView(
            configuration=lambda: (self._rereader.running, file),
            lines=lambda asked: self._log.last(asked.after, asked.limit, asked.level),
            uses=lambda: uses(self._places, self._operators, self._links, self._connections, self._inbox, self._log),
        )

    def _log_start(self, config: Config, recovery: Recovery) -> None:
        self._log.info(
            "start",
            version=__version__,
            pid=os.getpid(),
            data_dir=str(config.data_dir),
            boot=recovery.boot,
            was_clean=recovery.was_clean,
            queues=len(recovery.queues),
        )
        self._log.info("access", sentence=_access(config))
        for sentence in config.useless:
            self._log.warning("no_effect", sentence=sentence)
        if plain := _plain_links(config):
            more = f", and {len(plain) - 1} more" if len(plain) > 1 else ""
            sentence = (
                f"What nodes say to each other can be read and changed on the way: {plain[0]}{more}. Write peers://."
            )
            self._log.warning("links_not_encrypted", sentence=sentence)

    def _listen(self, config: Config) -> None:
        """Listens on all addresses. Raises RadiatorError if a configured one cannot be listened on. The operators'
        socket is opened if that is possible.
        """
        try:
            self._open_listeners(config)
        except RadiatorError:
            self._close_listeners()
            raise

    def _open_listeners(self, config: Config) -> None:
        if self._credentials.pair is not None:
            pair, own = self._credentials.pair, self._credentials.own
            self._tls = TlsListeners(self._loop, pair, config.users.values(), self._log, own)
            self._dispatcher.certificates_left_s = self._tls.left_s
            self._dialer.tls = self._tls
        operators = config.operators_socket
        node = config.node
        listed = [*config.listen, *([node.listen] if node is not None and node.listen is not None else [])]
        for address in listed:
            is_operators = isinstance(address, UnixAddress) and address.path == operators.path
            try:
                self._add_listener(address, config.limits, is_operators)
            except AddressTaken as error:
                if not may_be_left_out(address):
                    raise
                self._log.warning("listener_left_out", sentence=f"{error} The broker serves without it.")
        if config.unix and not any(isinstance(one, UnixAddress) and one.path == operators.path for one in listed):
            try:
                self._add_listener(operators, config.limits, True)
            except RadiatorError as error:
                self._log.warning("no_operators_socket", sentence=str(error))

    def _add_listener(self, address: ListenAddress, limits: Limits, is_operators: bool) -> None:
        def admit(transport: Transport) -> None:
            self._connections.admit(transport, address.scheme, is_operators)

        encrypt: Callable[[SocketTransport], Transport] | None = None
        if SCHEMES[address.scheme].is_encrypted:
            assert self._tls is not None, "a configuration with such a listener has [tls]"
            wrap = self._tls.wrap_link if address.scheme == PEERS else self._tls.wrap
            encrypt = partial(wrap, address=str(address))
        self._listeners.append(Listener(self._loop, address, limits, admit, self._log, encrypt))

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    def run(self) -> int:
        """Runs from the first listener to the last receipt. Returns the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, self._on_signal, number)
        gevent.signal_handler(signal.SIGHUP, self._rereader.ask)
        self._dispatcher.start()
        for listener in self._listeners:
            listener.start()
        self._log_console()
        self._dialer.start()
        self._collector = Collector(self._loop, self._connections)
        self._trimmer = HeapTrimmer(self._loop, lambda: self._memory.in_all_bytes, occupied_bytes)
        notify("READY=1")
        within_s = watchdog_s()
        if within_s:
            Watchdog(self._loop, within_s, lambda: (self._dispatcher.turns, self._dispatcher.committer.beats))
        self._stop.wait()
        self._wind_up()
        return 0

    def _log_console(self) -> None:
        """Logs the address of the console, for an operator's browser."""
        web = self._connections.web
        for listener in self._listeners if web.console else ():
            address = listener.address
            if isinstance(address, Address) and has_pages(address):
                self._log.info("console", url=f"{_to_dial(address, web)}/")

    def _read_again(self, running: Config) -> Reread:
        """Runs in a thread: reads the configuration's file, and the files that it names, and checks them as a start
        would.
        """
        found = self._read(running)
        if found.config is None:
            return found
        try:
            self._read_credentials = load_credentials(found.config)
        except ConfigError as wrong:
            return Reread(None, mistakes=wrong.mistakes)
        changes = [*found.changes, *differences(self._credentials, self._read_credentials)]
        return replace(found, changes=changes, warnings=warnings(self._read_credentials, time.time()))

    def _use(self, config: Config) -> None:
        """Called when the broker has put a changed configuration into force: applies it to the rest of the server."""
        self._credentials = credentials = self._read_credentials
        if self._tls is not None:
            self._tls.users = config.users.values()
            if credentials.pair is not None:
                self._tls.use(credentials.pair, credentials.own)
        self._log.use(config.logging)
        self._connections.web = config.http
        if self._authenticator is not None:
            self._authenticator.use(config.users, credentials.jwt)
        self._dispatcher.use(config)
        if _places_wanted(config) != self._places_wanted:
            self._places_wanted = _places_wanted(config)
            self._places.bound(*places_for(config, self._links.sockets_max, self._log))

    def _on_signal(self, number: int) -> None:
        now_s = time.monotonic()
        name = signal.Signals(number).name
        if self._signalled_s:
            if now_s - self._signalled_s > _SAME_SIGNAL_S:
                halt(self._log, 128 + number, f"A second signal ({name}) came while the broker was stopping.")
            return
        self._signalled_s = now_s
        self._log.info("stopping", signal=name)
        self._stop.set()

    def _wind_up(self) -> None:
        """Keeps the contract of SIGTERM: waits for slow readers until STOP_MAX_S, and for the disk as long as it
        takes.
        """
        notify("STOPPING=1")
        give_up_s = time.monotonic() + STOP_MAX_S
        self._close_listeners()
        self._dialer.stop()
        self._connections.stop_reading()
        self._dispatcher.sync_at_once()
        self._inbox.stop()
        at_once_s = time.monotonic() + STOP_FINISH_MAX_S
        while not (self._dispatcher.is_stopped and self._dispatcher.is_at_rest):
            if time.monotonic() >= at_once_s and not self._dispatcher.is_stopped:
                self._inbox.stop(at_once=True)
                at_once_s = inf
            gevent.sleep(_STOP_LOOK_S)
        while not self._connections.are_written and time.monotonic() < give_up_s:
            gevent.sleep(_STOP_LOOK_S)
        give_up_s = min(give_up_s, time.monotonic() + STOP_LINGER_S)
        while not self._connections.are_gone and time.monotonic() < give_up_s:
            gevent.sleep(_STOP_LOOK_S)
        self._connections.close()
        while not self._dispatcher.is_at_rest:
            gevent.sleep(_STOP_LOOK_S)
        self._dispatcher.finish()
        self._log.info("stopped")
        self._log.close()
        gc.freeze()  # otherwise Python scans the whole heap at its end: seconds for a GiB of messages


class Collector:
    """Runs Python's collector of reference cycles every COLLECT_EVERY_S; and each time that COLLECT_EVERY_CONNECTIONS
    connections have ended, but only on objects made since it last ran. Never on what exists at the start.

    By default Python scans everything each time the heap has grown by a quarter: with 200,000 messages in memory queues
    that took 15 % of the CPU, and stopped all for 60 ms at a time. Messages are in no cycle: no scan frees them.
    """

    def __init__(self, loop: Any, connections: Connections) -> None:
        gc.collect()
        gc.freeze()  # what exists now is never scanned again
        gc.disable()
        self._connections = connections
        self._collected_s = time.monotonic()
        self._collected_at = 0
        self._timer = loop.timer(TICK_S, TICK_S)
        self._timer.start(self._look)

    def _look(self) -> None:
        ended, now_s = self._connections.ended, time.monotonic()
        if now_s - self._collected_s >= COLLECT_EVERY_S:
            gc.collect()
            self._collected_at, self._collected_s = ended, now_s
        elif ended - self._collected_at >= COLLECT_EVERY_CONNECTIONS:
            gc.collect(0)  # connections leave no cycles; if a mistake makes some, these are found at once
            self._collected_at = ended


def _access(config: Config) -> str:
    if not config.users:
        return "this machine only; no password until config.toml has a [user]"
    anonymous = "; a client without a login is anonymous" if ANONYMOUS in config.users else ""
    return f"{count_text(len(config.users.keys() - {ANONYMOUS}), 'user')}, each with a login{anonymous}"


def _to_dial(address: Address, web: WebSettings) -> Address:
    """Returns an address of that listener which a browser can open: a wildcard address is none."""
    if not address.is_wildcard:
        return address
    loopback = "::1" if ":" in address.host else "127.0.0.1"
    return replace(address, host=min(web.hosts, default=loopback))


def _plain_links(config: Config) -> list[Address]:
    """Returns the addresses of this node, and of those that it dials, where what nodes say leaves this machine without
    TLS.
    """
    node = config.node
    known = [] if node is None else [node.listen, *node.peers.values()]
    return [one for one in known if one is not None and one.scheme == PEER and not one.is_loopback]


def _authenticator(config: Config, credentials: Credentials, log: EventLog, inbox: Inbox) -> Authenticator | None:
    """Returns None if there are no users: then nobody is asked for a login."""

    def failed(peer: str, network: str, name: str) -> None:
        log.write("warning", "login_failed", {"peer": peer, "login": name}, network)
        if config.declarations.has_journal:
            inbox.report(LoginRefused(name, peer, network))

    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    if not config.users:
        return None
    key, own_uid = os.urandom(KEY_BYTES), os.geteuid()
    return Authenticator(config.users, key, own_uid, time.monotonic, now_ms, failed, credentials.jwt)


def _places_wanted(config: Config) -> tuple[int, int, int]:
    limits = config.limits
    return limits.max_connections, limits.max_half_open, limits.max_half_open_per_address


def places_for(config: Config, links_max: int, log: EventLog) -> tuple[int, int, int]:
    """Returns the bounds of Places: as many clients as there are file descriptors, without those of links. Raises the
    soft limit as far as needed. If there are too few files, half-open connections get a tenth of them, and the log says
    so.

    Ensures that connections never take the last files: a commit that found none would look like a failed disk. Raises
    RadiatorError if there are too few files for that.
    """
    limits = config.limits
    connections, half_open = limits.max_connections, limits.max_half_open
    spare = SPARE_FILES + 2 * OPERATORS_CONNECTIONS + links_max
    wanted = connections + half_open + spare
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = soft
    if soft != resource.RLIM_INFINITY and soft < wanted:
        files = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    if files != resource.RLIM_INFINITY and files < SPARE_FILES:
        wrong = f"The process may open {files} files, and a broker needs {SPARE_FILES} at least for its own"
        raise RadiatorError(f"{wrong}: raise `ulimit -n`, or LimitNOFILE of the unit.")
    if files != resource.RLIM_INFINITY and files < wanted:
        half_open = min(half_open, max(HALF_OPEN_MIN, files // 10))
        connections = min(connections, max(1, files - spare - half_open))
        if config.limits_given & {"max_connections", "max_half_open"}:
            log.warning(
                "few_files",
                open_files=files,
                wanted=wanted,
                max_connections=limits.max_connections,
                room_for=connections,
            )
    return connections, half_open, limits.max_half_open_per_address
