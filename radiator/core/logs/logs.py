"""All logs: what the start finds, what is declared in config.toml or at run time, and what is deleted."""

import json
from dataclasses import asdict
from typing import Protocol

from radiator.core.logs.log import LOG_PREFIX, Log, is_reserved_log
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.retention import Retention
from radiator.core.queues.windows import Windows
from radiator.core.routing.surroundings import Surroundings
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.core.usage import with_maker
from radiator.model.audit import BROKER
from radiator.model.checks import shown
from radiator.model.errors import Refusal, StoreError
from radiator.model.patterns import is_pattern, name_mistake
from radiator.model.recovery import StoredLog
from radiator.model.settings import AUDIT, Declarations, LogSettings
from radiator.model.users import MADE_BY, maker_of, without_maker
from radiator.model.validation import log_name_mistake, log_settings
from radiator.model.writes import DeclareLog, DropLog, KeepSettings


def partitions_mistake(name: str, declared: LogSettings, kept: LogSettings) -> str:
    """Returns the sentence about a log that has another number of partitions than is declared."""
    return (
        f"{LOG_PREFIX}{name} is declared with partitions = {declared.partitions}, but it has {kept.partitions}, and "
        "their number is fixed: declare that many, or take another name."
    )


class LogSurroundings(Surroundings, Protocol):
    """The part of Destinations that Logs needs."""

    def check_no_child(self, log: Log) -> None:
        """Raises Refusal where a fanout leads to it."""


class Logs:
    """all: by name. readers, retention: of all of them."""

    __slots__ = ("all", "around", "context", "declarations", "readers", "retention", "windows")

    def __init__(
        self,
        declarations: Declarations,
        around: LogSurroundings,
        *,
        context: TurnContext,
        windows: Windows,
        readers: LogConsumers,
    ) -> None:
        self.declarations = declarations
        self.around = around
        self.context = context
        self.windows = windows
        self.readers = readers
        self.all: dict[str, Log] = {}
        self.retention = Retention(context, self.all)

    def recover(self, stored: StoredLog) -> None:
        """Restores a log, as config.toml has it or else as it was declared; of a deleted one drops the segments that
        are left. Raises StoreError.
        """
        if not stored.name:
            self.retention.drop(stored.segments)
            return
        found = json.loads(stored.settings or "{}")
        try:
            kept = log_settings(without_maker(found))
        except Refusal as refusal:
            raise StoreError(
                f"{LOG_PREFIX}{stored.name} is kept with settings that cannot be used: {refusal}"
            ) from None
        declared = self.declarations.logs.get(stored.name, kept)
        if declared.partitions != kept.partitions:
            raise StoreError(partitions_mistake(stored.name, declared, kept))
        log = self.open(stored, declared)
        log.is_audit = maker_of(found) == BROKER
        if stored.name == AUDIT and self.declarations.has_journal and not log.is_audit:
            raise StoreError(
                f"{log.name} is a log of clients, and with the journal it is kept for the audit log: start without "
                "[journal], copy what you need of it, delete it, and start again."
            )
        if not log.is_audit:
            log.maker = self.around.usages.recover(maker_of(found), log.address, declared.partitions)
        if declared != kept:
            self.keep_settings(log)

    def make_declared(self) -> None:
        """Makes the logs that config.toml declares, where they do not exist."""
        for name, settings in self.declarations.logs.items():
            log = self.all.get(name) or self.create(name, settings)
            log.is_declared = True

    @property
    def partitions(self) -> int:
        """How many partitions all logs have, as max_destinations counts them."""
        return sum(len(log.partitions) for log in self.all.values())

    def open(self, stored: StoredLog, settings: LogSettings) -> Log:
        log = Log(stored, settings, context=self.context, windows=self.windows, readers=self.readers)
        self.all[stored.name] = log
        return log

    def keep_settings(self, log: Log) -> None:
        kept = with_maker(asdict(log.log_settings), log.maker)
        if log.log_settings.schema is None:
            del kept["schema"]  # an older version does not know it, and reads all others
        text = json.dumps(kept | {MADE_BY: BROKER} if log.is_audit else kept)
        self.context.write(KeepSettings(log.number, text), WRITE_COST_BYTES + len(text))

    def create(self, name: str, settings: LogSettings) -> Log:
        number = self.around.take_number()
        self.context.write(DeclareLog(number, name))
        log = self.open(StoredLog(number, name), settings)
        if name == AUDIT and self.declarations.has_journal:
            log.is_audit = True
        elif name not in self.declarations.logs:
            log.maker = self.around.usages.make(log.address, settings.partitions)
        self.keep_settings(log)
        self.around.made(log)
        return log

    def get(self, name: str) -> Log:
        """Returns the log of that name. Raises Refusal where there is none."""
        found = self.all.get(name)
        if found is None:
            raise Refusal(
                "no-such-destination",
                f"{LOG_PREFIX}{name:.255} is not declared: config.toml or a request to /admin declares a log.",
            )
        return found

    def use(self, log: Log, settings: LogSettings) -> None:
        """Puts these settings into force for the log, and stores them, if they are new."""
        if log.log_settings != settings:
            log.use(settings)
            self.keep_settings(log)

    def declare(self, name: str, settings: LogSettings, may_be_reserved: bool = False) -> bool:
        """Declares a log; returns whether it is new. Raises Refusal `declared-otherwise` where it exists with other
        settings.
        """
        found = self.all.get(name)
        if found is not None:
            here, wanted = asdict(found.log_settings), asdict(settings)
            for key in here:
                if here[key] != wanted[key]:
                    sentence = f"{found.name} already exists: its {key} is {shown(here[key])}, not"
                    raise Refusal("declared-otherwise", f"{sentence} {shown(wanted[key])}.")
            return False
        wrong = name_mistake(name) if may_be_reserved else log_name_mistake(name)
        if wrong:
            code = "reserved" if is_reserved_log(name) else "wildcard" if is_pattern(name) else "bad-request"
            raise Refusal(code, f"{name!r:.80} is not a valid name for a log: it {wrong}.")
        self.around.check_count(settings.partitions)
        self.create(name, settings)
        return True

    def check_unused(self, log: Log, may_be_reserved: bool = False) -> None:
        """Raises Refusal where the log cannot be deleted."""
        if log.is_declared:
            raise Refusal("declared", f"{log.name} is declared in the configuration: remove it there.")
        if log.is_reserved and not may_be_reserved:
            raise Refusal("reserved", f"{log.name} is a log that the broker keeps for itself.")
        if log.has_readers:
            raise Refusal("in-use", f"{log.name} is being read: end the subscriptions first.")
        self.around.check_no_child(log)

    def delete(self, log: Log, may_be_reserved: bool = False) -> int:
        """Deletes the log with its records, bindings and positions; returns the number of records. Raises Refusal."""
        self.check_unused(log, may_be_reserved)
        count, context = log.records, self.context
        self.around.release(log)
        context.write(log.as_write())
        context.write(DropLog(log.number))
        for batch in (context.open, context.being_committed):
            if batch is not None:
                batch.parts.pop(log, None)
                for group in log.groups.values():
                    batch.parts.pop(group, None)
        del self.all[log.bare_name]
        for partition in log.partitions:
            self.retention.drop(partition.segments)
        log.end()
        return count
